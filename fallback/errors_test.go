package fallback_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

// TestFallbackCallerLeaves: the end of the caller's own context ends the call with its error.
// That is no failure of the store, and in no mode a grant.
func TestFallbackCallerLeaves(t *testing.T) {
	leave := map[string]struct {
		ctx  func() (context.Context, context.CancelFunc)
		want error
	}{
		"canceled before": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx, cancel
		}, context.Canceled},
		"canceled within": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(20*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
		"deadline within": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 20*time.Millisecond)
		}, context.DeadlineExceeded},
		"deadline before": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), -1)
		}, context.DeadlineExceeded},
	}
	for name, c := range leave {
		for _, mode := range modes {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					faulty := weirtest.NewFaulty(weir.NewMemory())
					f := fallback.New(faulty, mode)
					limiter := must(weir.New(ten, weir.WithEngine(f)))
					faulty.Break(weirtest.Silent())
					for range 20 {
						ctx, cancel := c.ctx()
						began := time.Now()
						d, err := limiter.Allow(ctx, weir.K("42"))
						if err != c.want || d != (weir.Decision{}) || time.Since(began) > 20*time.Millisecond {
							t.Fatalf("got %+v, %v after %v; want %v", d, err, time.Since(began), c.want)
						}
						cancel()
					}
					synctest.Wait()
					if got := f.Status(); got.State != fallback.StoreUp || got.Failures != 0 || got.Degraded != 0 {
						t.Errorf("status: %+v; want no failure", got)
					}
				})
			})
		}
	}
}

// TestFallbackCallerHasLeft: a caller whose context has ended gets no grant, not even from an
// open breaker.
func TestFallbackCallerHasLeft(t *testing.T) {
	for _, mode := range modes {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, ten, mode)
			s.Break(weirtest.Down())
			s.fail(5)
			degraded := s.fallback.Status().Degraded
			left, leave := context.WithCancel(context.Background())
			leave()
			if d, err := s.Allow(left, weir.K("42")); err != context.Canceled || d.Allowed {
				t.Errorf("%v: got %+v, %v; want Canceled", mode, d, err)
			}
			if got := s.fallback.Status().Degraded; got != degraded {
				t.Errorf("%v: counted as a decision", mode)
			}
		})
	}
}

// TestFallbackCallersDeadlineByTheClock: an engine that reads the deadline itself may return
// before the context ends. That is still the caller's deadline.
func TestFallbackCallersDeadlineByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Allow)
		s.Break(func(context.Context, func()) error { return context.DeadlineExceeded })
		late := lateContext{context.Background(), time.Now()}
		if d, err := s.Allow(late, weir.K("42")); err != context.DeadlineExceeded || d.Allowed {
			t.Errorf("got %+v, %v; want DeadlineExceeded", d, err)
		}
		s.want(fallback.StoreUp)
	})
}

// lateContext has passed its deadline and has not ended yet.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// TestFallbackBadInput: bad input is an error in every mode and not a failure of the store
// (R14).
func TestFallbackBadInput(t *testing.T) {
	policy := &weir.PolicyError{Policy: "ten", Field: "Limits", Problem: "of two slots"}
	for _, mode := range modes {
		for _, input := range []error{engine.Input("units", ""), engine.Input("key", ""), engine.Input("instant", ""), engine.Input("limit", ""), engine.Input("span", ""),
			engine.Input("request", ""), weir.ErrOverflow, weir.ErrFull, policy} {
			s := newStore(t, ten, mode)
			s.Break(func(context.Context, func()) error { return input })
			for range 10 {
				if d, err := s.Allow(ctx, weir.K("42")); err != input || d.Allowed {
					t.Fatalf("%v: got %+v, %v; want %v", mode, d, err, input)
				}
			}
			s.want(fallback.StoreUp)
			if got := s.fallback.Status(); got.Failures != 0 || got.Degraded != 0 {
				t.Errorf("%v, %v: status %+v", mode, input, got)
			}
		}
		s := newStore(t, ten, mode)
		s.Record(ctx, weir.K("42"), weir.MaxUnits)
		if _, err := s.Record(ctx, weir.K("42"), 1); !errors.Is(err, weir.ErrOverflow) {
			t.Errorf("%v, a real overflow: %v", mode, err)
		}
	}
}

// TestFallbackOutcomeUnknown: a call whose answer was lost is not sent again. Deny returns
// the error. In the other modes the call may count twice, and is marked Degraded.
func TestFallbackOutcomeUnknown(t *testing.T) {
	for _, mode := range modes {
		s := newStore(t, ten, mode)
		s.Break(weirtest.Lost())
		d, err := s.AllowN(ctx, weir.K("42"), 3)
		if s.Calls() != 1 {
			t.Errorf("%v: the call was put %d times", mode, s.Calls())
		}
		switch {
		case mode == fallback.Deny && (d != (weir.Decision{}) || !errors.Is(err, weir.ErrOutcomeUnknown) || errors.Is(err, weir.ErrUnavailable)):
			t.Errorf("%v: got %+v, %v; want ErrOutcomeUnknown alone", mode, d, err)
		case mode != fallback.Deny && (err != nil || !d.Allowed || d.Granted != 3 || !d.Degraded):
			t.Errorf("%v: got %+v, %v; want it allowed, degraded", mode, d, err)
		}
		s.Restore()
		if n, err := s.Count(ctx, weir.K("42"), "user", time.Hour); n != 3 || err != nil {
			t.Errorf("%v: the store counted %d, %v; want 3", mode, n, err)
		}
		s.Break(weirtest.Down())
		if d, err := s.AllowN(ctx, weir.K("42"), 8); mode == fallback.Share && (err != nil || d.Allowed || d.Remaining != 7) {
			t.Errorf("the share: %+v, %v; want 3 of 10 counted there too", d, err)
		}
	}
}
