package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// TestBreakerOpens: after five failures in a row the store is not called; after four and a
// success it is.
func TestBreakerOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Deny)
		for range 3 {
			s.Break(weirtest.Down())
			s.fail(4)
			s.Restore()
			if _, err := s.Peek(ctx, weir.K("42"), 1); err != nil {
				t.Fatal(err)
			}
			s.want(up)
		}
		s.Break(weirtest.Down())
		s.fail(4)
		s.want(up)
		s.fail(1)
		s.want(down)

		before := s.Calls()
		_, err := s.Allow(ctx, weir.K("42"))
		assert.Error(t, err, weir.ErrUnavailable, "5 calls in a row failed", "weirtest: down")
		s.fail(100)
		assert.Equal(t, s.Calls(), before, "calls of the store while the breaker was open")
		if got := s.fallback.Status(); got.Failures != 17 || got.Degraded != 0 || got.Cause == nil {
			t.Errorf("status: %+v; want 17 failures and their cause", got)
		}
	})
}

// TestBreakerProbes: while the store is down it is probed every 100 to 500 ms, and its
// return is noticed within a second.
func TestBreakerProbes(t *testing.T) {
	for _, fault := range []weirtest.Fault{weirtest.Down(), weirtest.Silent()} {
		synctest.Test(t, func(t *testing.T) {
			for range 3 {
				s := newStore(t, ten, fallback.Allow)
				s.Break(fault)
				s.fail(5)
				s.want(down)
				last, before := time.Now(), s.Calls()
				for outage := time.Now(); time.Since(outage) < 10*time.Second; {
					now := time.Now()
					if s.fail(1); s.Calls() == before {
						time.Sleep(5 * time.Millisecond)
						continue
					}
					if gap := now.Sub(last); gap < 100*time.Millisecond || gap > 505*time.Millisecond || s.Calls() != before+1 {
						t.Fatalf("%d probes %v after the last, want one after 100 to 500 ms", s.Calls()-before, gap)
					}
					last, before = now, s.Calls()
				}
				s.Restore()
				back := time.Now()
				for s.fallback.Status().Cause != nil {
					s.Allow(ctx, weir.K("42"))
					time.Sleep(time.Millisecond)
				}
				if took := time.Since(back); took > time.Second {
					t.Errorf("the store's return was found after %v", took)
				}
				d, err := s.Peek(ctx, weir.K("42"), 1)
				if err != nil {
					t.Fatal(err)
				}
				assert.Equal(t, d.Degraded, false, "degraded after the store's return")
			}
		})
	}
}

// TestBreakerProbesOneAtATime: there is never a second probe beside a slow one, and all
// other calls are decided at once.
func TestBreakerProbesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Allow, fallback.Timeout(3*time.Second))
		s.Break(weirtest.Down())
		s.fail(5)
		before := s.Calls()
		s.Break(weirtest.Silent())
		time.Sleep(time.Second)
		var all sync.WaitGroup
		took := make([]time.Duration, 50)
		for i := range took {
			all.Go(func() {
				began := time.Now()
				s.fail(1)
				took[i] = time.Since(began)
			})
		}
		synctest.Wait()
		for range 20 { // the probe hangs for 3 s
			time.Sleep(100 * time.Millisecond)
			s.fail(10)
		}
		assert.Equal(t, s.Calls()-before, 1, "probes at once")
		all.Wait()
		slices.Sort(took)
		if took[0] != 0 || took[48] != 0 || took[49] != 3*time.Second {
			t.Errorf("callers waited %v … %v, %v; want none but the probe's", took[0], took[48], took[49])
		}
		time.Sleep(1100 * time.Millisecond) // by now the probe has ended
		s.fail(1)
		assert.Equal(t, s.Calls()-before, 2, "probes with that after a slow one")
		time.Sleep(3 * time.Second) // until that has ended, too
	})
}

// TestBreakerIgnoresStragglers: the success of a call made before the breaker opened does
// not close it.
func TestBreakerIgnoresStragglers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Deny)
		s.Break(weirtest.Slow(40 * time.Millisecond))
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := s.Allow(ctx, weir.K("42")); err != nil {
				t.Errorf("a slow call: %v", err)
			}
		})
		synctest.Wait()
		s.Break(weirtest.Down())
		s.fail(5)
		all.Wait()
		s.want(down)
	})
}

// TestErrorsAndTheBreaker: an answer of the store about a key or its content shows that it is
// up. Bad input and a caller that has left show nothing; after such a probe the next call
// probes. Unreadable data is decided by the mode, all others are errors in every mode.
func TestErrorsAndTheBreaker(t *testing.T) {
	left, leave := context.WithCancel(ctx)
	leave()
	for name, c := range map[string]struct {
		ctx      context.Context
		err      error
		byMode   bool
		failures int64 // of 8 calls
		isUp     bool
	}{
		"bad input":       {ctx, fmt.Errorf("%w: from the store", engine.Input("units", "")), false, 0, false},
		"a bad policy":    {ctx, &weir.PolicyError{Policy: "ten", Field: "Limits", Problem: "of two slots"}, false, 0, false},
		"a caller's end":  {left, context.Canceled, false, 0, false},
		"an overflow":     {ctx, fmt.Errorf("%w: from the store", weir.ErrOverflow), false, 0, true},
		"a full store":    {ctx, fmt.Errorf("%w: from the store", weir.ErrFull), false, 0, true},
		"unreadable data": {ctx, fmt.Errorf("%w, %w: from the store", weir.ErrUnreadable, weir.ErrUnavailable), true, 8, true},
	} {
		for _, mode := range modes {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, ten, mode)
				fault := func(context.Context, func()) error { return c.err }
				call := func() {
					t.Helper()
					d, err := s.Allow(c.ctx, weir.K("42"))
					if degraded := c.byMode && mode != fallback.Deny; degraded != d.Degraded || degraded != d.Allowed || degraded != (err == nil) || err != nil && !errors.Is(err, c.err) {
						t.Fatalf("%s, %v: got %+v, %v", name, mode, d, err)
					}
				}
				s.Break(fault)
				for range 8 {
					call()
				}
				s.want(up)
				if got := s.fallback.Status(); s.Calls() != 8 || got.Failures != c.failures || got.Degraded != 0 && !c.byMode {
					t.Errorf("%s, %v: %d calls of the store, %+v; want 8, and %d failures", name, mode, s.Calls(), got, c.failures)
				}
				s.Break(weirtest.Down())
				s.fail(5)
				s.want(down)
				s.Break(fault)
				time.Sleep(time.Second)
				call()
				if !c.isUp {
					s.want(down)
					s.Restore()
					s.Allow(ctx, weir.K("42"))
				}
				s.want(up)
			})
		}
	}
}

// TestOnStoreState: changes are reported in order, one at a time, with their cause. The
// callback may use the engine.
func TestOnStoreState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		var s *store
		busy := false
		s = newStore(t, ten, fallback.Allow, fallback.FailureThreshold(1), fallback.OnStoreState(nil), fallback.OnStoreState(func(cause error) {
			if busy {
				t.Error("a callback ran during another one")
			}
			busy = true
			heard = append(heard, fmt.Sprintf("%v %v", cause != nil, s.fallback.Status().Cause != nil))
			if cause == nil { // breaks it again during the callback
				s.Break(weirtest.Down())
				s.fail(1)
			}
			busy = false
		}))
		s.Break(weirtest.Down())
		s.fail(10)
		time.Sleep(time.Second)
		s.fail(10)
		s.Restore()
		time.Sleep(time.Second)
		s.Allow(ctx, weir.K("42"))
		assert.Equal(t, fmt.Sprint(heard), "[true true false false true true]", "the states, as reported and as in Status")
	})
}

// TestOnStoreStatePanics: a callback that panics leaves the breaker intact.
func TestOnStoreStatePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s := newStore(t, ten, fallback.Allow, fallback.FailureThreshold(1), fallback.OnStoreState(func(error) {
			if told++; told == 1 {
				panic("listener")
			}
		}))
		s.Break(weirtest.Down())
		assert.Equal(t, assert.Recovered(func() { s.fail(1) }), "listener", "the panic that the caller caught")
		s.want(down)
		s.Restore()
		time.Sleep(time.Second)
		s.Allow(ctx, weir.K("42"))
		s.want(up)
		assert.Equal(t, told, 2, "callbacks")
	})
}
