package weirtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
)

var nineAnHour = weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 9, Window: time.Hour}}}

// TestFaults: each fault has its error, its duration and its effect on the history.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault    Fault
		err      error
		takes    time.Duration
		recorded int64
	}{
		"none":   {nil, nil, 0, 1},
		"down":   {Down(), weir.ErrUnavailable, 0, 0},
		"silent": {Silent(), context.DeadlineExceeded, time.Second, 0},
		"lost":   {Lost(), weir.ErrOutcomeUnknown, 0, 1},
		"slow":   {Slow(time.Millisecond), nil, time.Millisecond, 1},
		"slower": {Slow(time.Minute), context.DeadlineExceeded, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := NewFaulty(weir.NewMemory())
				limiter, err := weir.New(nineAnHour, weir.WithEngine(f))
				if err != nil {
					t.Fatal(err)
				}
				if c.fault != nil {
					f.Break(c.fault)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				d, err := limiter.Allow(ctx, weir.K())
				if took := time.Since(began); took != c.takes || !errors.Is(err, c.err) || d.Allowed != (c.err == nil) {
					t.Errorf("allow: got %+v, %v after %v; want error %v after %v", d, err, took, c.err, c.takes)
				}
				f.Restore()
				n, err := limiter.Count(t.Context(), weir.K(), "l", time.Hour)
				if n != c.recorded || err != nil {
					t.Errorf("count, restored: got %d, %v; want %d", n, err, c.recorded)
				}
				if f.Calls() != 2 {
					t.Errorf("asked %d times, want 2", f.Calls())
				}
			})
		})
	}
}

// TestFaultOfABatch: a batch is one call. Down and Lost fail every call of it that was not
// bad input, and Lost has recorded.
func TestFaultOfABatch(t *testing.T) {
	f := NewFaulty(weir.NewMemory())
	limiter, err := weir.New(nineAnHour, weir.WithEngine(f))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		fault    Fault
		err      error
		recorded int64
	}{{Down(), weir.ErrUnavailable, 0}, {Lost(), weir.ErrOutcomeUnknown, 2}, {Slow(0), nil, 4}} {
		f.Break(c.fault)
		states := make([]weir.LimitState, 1)
		calls := []weir.Call{
			{Limiter: limiter, Request: weir.Request{N: 1, States: states}},
			{Limiter: limiter, Request: weir.Request{N: -1}},
			{Limiter: limiter, Request: weir.Request{N: 1}},
		}
		weir.DecideAll(t.Context(), calls)
		for j, want := range []error{c.err, weir.ErrInput, c.err} {
			if d := calls[j].Decision; !errors.Is(calls[j].Err, want) || d.Allowed != (want == nil) {
				t.Errorf("fault %d, call %d: %v, %v; want error %v", i, j, d, calls[j].Err, want)
			}
		}
		if (states[0].Name == "") != (c.err != nil) {
			t.Errorf("fault %d: the state is %+v", i, states[0])
		}
		f.Restore()
		if n, err := limiter.Count(t.Context(), weir.K(), "l", time.Hour); n != c.recorded || err != nil || f.Calls() != int64(2*i+2) {
			t.Errorf("fault %d: %d units, %v, after %d calls; want %d after %d", i, n, err, f.Calls(), c.recorded, 2*i+2)
		}
	}
}
