package weir

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// capped is the policy of a transfer: units of the day, by account.
func capped(name string, max int64) Policy {
	return Policy{Name: name, Limits: []Limit{{Name: "day", Max: max, Window: 24 * time.Hour, By: []string{"account"}}}}
}

func attempt(l *Limiter, k Key, n int64) Call {
	return Call{Limiter: l, Key: k, Request: Request{N: n, States: make([]LimitState, len(l.rules.Limits))}}
}

// TestTogetherInAnyOrderOfBy: calls by the same dimensions in another order are for one history.
func TestTogetherInAnyOrderOfBy(t *testing.T) {
	m := NewMemory()
	by := func(names ...string) *Limiter {
		return mustNew(t, Policy{Name: "p", Dimensions: names, Limits: []Limit{{Name: "l", Max: 5, Window: time.Hour, By: names}}}, WithEngine(m))
	}
	calls := []Call{attempt(by("user", "ip"), K("u", "i"), 2), attempt(by("ip", "user"), K("i", "u"), 2)}
	if err := DecideTogether(ctx, calls); err != nil || calls[1].Decision.Remaining != 1 || m.Stats().Keys != 1 {
		t.Errorf("%v, %+v, %d histories; want one with room for 1", err, calls[1].Decision, m.Stats().Keys)
	}
}

// TestTogetherRejects: bad input of one call is an error that names it, and changes nothing.
// Package engine has a test of calls that cannot be decided with others.
func TestTogetherRejects(t *testing.T) {
	m := NewMemory()
	l, other := mustNew(t, capped("p", 10), WithEngine(m)), mustNew(t, capped("p", 10))
	good := func() Call { return attempt(l, K("a"), 1) }
	for text, c := range map[string]struct {
		call Call
		err  error
	}{
		"counts by":      {attempt(l, K(), 1), errKey},
		"-1; use 0":      {attempt(l, K("a"), -1), errUnits},
		"2 states":       {Call{Limiter: l, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 2)}}, errRequest},
		"use 1970-01-01": {Call{Limiter: l, Key: K("a"), Request: Request{N: 1, At: time.Unix(-7, 0)}}, errInstant},
		"earlier call":   {attempt(l, K("a"), MaxUnits), errUnits},
		"another engine": {attempt(other, K("a"), 1), errRequest},
		"weir.New":       {Call{Key: K("a"), Request: Request{N: 1}}, errZeroLimiter},
	} {
		calls := []Call{good(), c.call, good()}
		calls[0].Decision.Allowed = true // of an earlier use
		var of *engine.CallError
		err := DecideTogether(ctx, calls)
		if !errors.As(err, &of) || of.Call != 1 || !errors.Is(err, c.err) || !strings.Contains(err.Error(), text) || calls[0].Decision != (Decision{}) {
			t.Errorf("%v, %+v; want %v of call 1 with %q", err, calls[0].Decision, c.err, text)
		}
	}
	assert.Equal(t, m.Stats().Keys, 0, "histories after bad input")
	// Instants are cut to whole microseconds (R1), so these two are one.
	begin := time.Unix(7, 0)
	one, same := good(), good()
	one.Request.At, same.Request.At = begin, begin.Add(999)
	must.Do(t, DecideTogether(ctx, []Call{one, same}))
	// Other numbers of the limit for another key are no mistake.
	must.Do(t, DecideTogether(ctx, []Call{good(), attempt(mustNew(t, capped("p", 11), WithEngine(m)), K("b"), math.MaxInt8)}))
	// A limit of another kind has another history (R12).
	fixed := capped("p", 11)
	fixed.Limits[0].Kind = KindFixed
	calls := []Call{good(), attempt(mustNew(t, fixed, WithEngine(m)), K("a"), 2)}
	if err := DecideTogether(ctx, calls); err != nil || calls[0].Decision.Remaining != 9 || calls[1].Decision.Remaining != 9 {
		t.Errorf("two kinds: %v, %+v", err, calls)
	}
}

// stateless is an engine that leaves states as they are.
type stateless struct{ engine.Engine }

func (e stateless) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].States = nil
	}
	e.Engine.Do(ctx, calls)
}

// TestTogetherWithoutStates: without states each call has the room of the whole, and of the
// limits those are known that never grant so many units.
func TestTogetherWithoutStates(t *testing.T) {
	l := mustNew(t, capped("p", 10), WithEngine(stateless{NewMemory()}))
	for _, c := range []struct {
		sent, remaining int64
		limit           string
	}{{3, 7, ""}, {11, 7, "day"}} {
		calls := []Call{attempt(l, K("a"), c.sent), attempt(l, K("b"), 1)}
		must.Do(t, DecideTogether(ctx, calls))
		for i, limit := range []string{c.limit, ""} {
			if d := calls[i].Decision; d.Allowed != (c.limit == "") || d.Remaining != c.remaining || d.Limit != limit {
				t.Errorf("%d units, call %d: %+v", c.sent, i, d)
			}
		}
	}
	failing := mustNew(t, capped("p", 10), WithEngine(blindEngine{err: ErrFull}))
	calls := []Call{attempt(failing, K("a"), 1)}
	calls[0].Decision.Allowed = true
	if err := DecideTogether(ctx, calls); err != ErrFull || calls[0].Decision != (Decision{}) || calls[0].Request.States[0] != (LimitState{}) {
		t.Errorf("%v, %+v; want ErrFull and nothing else", err, calls[0])
	}
}

// TestBatchesRejectBadInput: bad requests of a batch get the errors of single calls, directly
// and through the interface, and the others are decided.
func TestBatchesRejectBadInput(t *testing.T) {
	for _, e := range []engine.Engine{NewMemory(), otherEngine{NewMemory()}} {
		l := mustNew(t, Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 2, Window: time.Hour, By: []string{"user"}}}}, WithEngine(e))
		calls := []Call{
			{Limiter: l, Key: K("a"), Request: Request{N: 1}},
			{Limiter: l, Key: K("a", "b"), Request: Request{N: 1}},
			{Limiter: l, Key: K("a"), Request: Request{N: -1}, Decision: Decision{Allowed: true}}, // of an earlier use
			{Limiter: l, Key: K("a"), Request: Request{N: 1, At: time.UnixMicro(MaxInstant + 1)}},
			{Limiter: l, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 2)}},
			{Limiter: l, Key: K("a"), Op: engine.Settle, Request: Request{N: 1, ID: "a"}},
			{Limiter: l, Key: K("a"), Request: Request{N: 1}, Err: context.Canceled, Decision: Decision{Allowed: true}},
			{Limiter: l, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 1)}},
		}
		DecideAll(context.Background(), calls)
		for i, want := range []error{nil, errKey, errUnits, errInstant, errRequest, errRequest, nil, nil} {
			if c := &calls[i]; !errors.Is(c.Err, want) || c.Err != nil && c.Decision != (Decision{}) {
				t.Errorf("%T, request %d: %+v, %v; want %v", e, i, c.Decision, c.Err, want)
			}
		}
		if !calls[0].Decision.Allowed || !calls[6].Decision.Allowed || calls[7].Decision.Allowed || calls[7].Request.States[0].Used != 2 {
			t.Errorf("%T: %+v", e, calls)
		}
		mixed := []Call{Call{Limiter: l, Key: K("b"), Request: Request{N: 1}}, Call{Limiter: l, Key: K(), Request: Request{N: 1}}, {Limiter: l.At(time.Time{}), Key: K("b"), Request: Request{N: 1}}}
		DecideAll(context.Background(), mixed)
		if !mixed[0].Decision.Allowed || !errors.Is(mixed[1].Err, errKey) || !errors.Is(mixed[2].Err, errInstant) {
			t.Errorf("%T: %+v", e, mixed)
		}
	}
	calls := make([]Call, 1)
	if DecideAll(context.Background(), calls); calls[0].Err == nil {
		t.Error("the zero Limiter decided a batch")
	}
}

// TestBatchesReadTheClockOnce: requests on known keys have one instant.
func TestBatchesReadTheClockOnce(t *testing.T) {
	l := mustNew(t, Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 1 << 30, Window: time.Hour, By: []string{"user"}}}})
	calls := slices.Repeat([]Call{{Limiter: l, Key: K("a"), Request: Request{N: 1}}}, 4096)
	l.Allow(ctx, K("a"))
	time.Sleep(time.Millisecond) // the batch is later than the history
	DecideAll(ctx, calls)
	for i := range calls {
		if !calls[i].Decision.At.Equal(calls[0].Decision.At) || calls[i].Err != nil {
			t.Fatalf("request %d is decided at %v, %v; want %v", i, calls[i].Decision.At, calls[i].Err, calls[0].Decision.At)
		}
	}
}

// TestBatchesForgetAnswersOfAnEarlierUse: a call that fails at its second use has neither
// the decision nor the states of the first.
func TestBatchesForgetAnswersOfAnEarlierUse(t *testing.T) {
	for _, e := range []engine.Engine{NewMemory(MaxKeys(1)), otherEngine{NewMemory(MaxKeys(1))}} {
		l := mustNew(t, perUser(2, time.Hour), WithEngine(e))
		calls := []Call{Call{Limiter: l, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 1)}}}
		DecideAll(ctx, calls)
		if !calls[0].Decision.Allowed || calls[0].Request.States[0].Used != 1 {
			t.Fatalf("%T: got %+v, want a grant", e, calls[0])
		}
		calls[0].Key = K("b")
		DecideAll(ctx, calls)
		if c := &calls[0]; !errors.Is(c.Err, ErrFull) || c.Decision != (Decision{}) || c.Request.States[0] != (LimitState{}) {
			t.Errorf("%T: got %+v, want only ErrFull", e, c)
		}
	}
	blind := mustNew(t, limits(2), WithEngine(blindEngine{err: ErrFull})) // it fails after it has filled a state
	calls := []Call{{Limiter: blind, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 2)}}}
	if DecideAll(ctx, calls); calls[0].Err != ErrFull || calls[0].Request.States[0] != (LimitState{}) {
		t.Errorf("got %+v, want only ErrFull", calls[0])
	}
}

// TestBatchesDecideOnTheEngineOfEachCall: neighbours in a batch can have limiters on different
// engines.
func TestBatchesDecideOnTheEngineOfEachCall(t *testing.T) {
	var calls []Call
	for range 2 {
		l := mustNew(t, perUser(1, time.Hour), WithEngine(NewMemory()))
		calls = append(calls, Call{Limiter: l, Key: K("a"), Request: Request{N: 1}})
	}
	for _, want := range []bool{true, false} {
		DecideAll(ctx, calls)
		for i := range calls {
			if c := &calls[i]; c.Err != nil || c.Decision.Allowed != want {
				t.Errorf("engine %d: %+v, %v; want allowed %v", i, c.Decision, c.Err, want)
			}
		}
	}
}

// TestTogetherInOppositeOrders: callers that name the same histories in opposite orders do not wait
// for each other for ever, because an engine locks histories in an order of its own.
func TestTogetherInOppositeOrders(t *testing.T) {
	m := NewMemory()
	one := mustNew(t, Policy{Name: "one", Limits: []Limit{PerHour(MaxUnits, "user")}}, WithEngine(m))
	other := mustNew(t, Policy{Name: "other", Limits: []Limit{PerHour(MaxUnits, "user")}}, WithEngine(m))
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for range 20_000 {
				calls := []Call{attempt(one, K("a"), 1), attempt(other, K("a"), 1)}
				if caller%2 == 0 {
					slices.Reverse(calls)
				}
				if err := DecideTogether(ctx, calls); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	d, err := one.Peek(ctx, K("a"), 1)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, d.Remaining, MaxUnits-80_000, "room after all calls")
}
