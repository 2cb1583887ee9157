package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
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
			s.want(fallback.StoreUp)
		}
		s.Break(weirtest.Down())
		s.fail(4)
		s.want(fallback.StoreUp)
		s.fail(1)
		s.want(fallback.StoreDown)

		before := s.Calls()
		_, err := s.Allow(ctx, weir.K("42"))
		if !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), "5 calls in a row failed") || !strings.Contains(err.Error(), "weirtest: down") {
			t.Errorf("the error of a call that is not made: %v; want the reason", err)
		}
		s.fail(100)
		if s.Calls() != before {
			t.Errorf("the store got %d calls while the breaker was open", s.Calls()-before)
		}
		if got := s.fallback.Status(); got.Failures != 17 || got.Degraded != 0 || got.Cause == nil {
			t.Errorf("status: %+v; want 17 failures and their cause", got)
		}
	})
}

// TestFailureThreshold: the caller chooses the number of failures; 0 is never.
func TestFailureThreshold(t *testing.T) {
	for _, after := range []int{1, 2, 20} {
		s := newStore(t, ten, fallback.Allow, fallback.FailureThreshold(after))
		s.Break(weirtest.Down())
		s.fail(after - 1)
		s.want(fallback.StoreUp)
		s.fail(1)
		s.want(fallback.StoreDown)
	}
	for _, after := range []int{0, -1} {
		s := newStore(t, ten, fallback.Allow, fallback.FailureThreshold(after))
		s.Break(weirtest.Down())
		s.fail(100)
		s.want(fallback.StoreUp)
		if s.Calls() != 100 {
			t.Errorf("FailureThreshold(%d): the store got %d of 100 calls", after, s.Calls())
		}
	}
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
				s.want(fallback.StoreDown)
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
				for s.fallback.Status().State == fallback.StoreDown {
					s.Allow(ctx, weir.K("42"))
					time.Sleep(time.Millisecond)
				}
				if took := time.Since(back); took > time.Second {
					t.Errorf("the store's return was found after %v", took)
				}
				if d, err := s.Peek(ctx, weir.K("42"), 1); err != nil || d.Degraded {
					t.Errorf("after the store's return: %+v, %v", d, err)
				}
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
		slow := make(chan time.Duration, 50)
		for range cap(slow) {
			all.Go(func() {
				began := time.Now()
				s.fail(1)
				slow <- time.Since(began)
			})
		}
		synctest.Wait()
		for range 20 { // the probe hangs for 3 s
			time.Sleep(100 * time.Millisecond)
			s.fail(10)
		}
		if s.Calls() != before+1 {
			t.Errorf("%d probes at once, want 1", s.Calls()-before)
		}
		all.Wait()
		close(slow)
		took := slices.Sorted(func(yield func(time.Duration) bool) {
			for d := range slow {
				yield(d)
			}
		})
		if took[0] != 0 || took[48] != 0 || took[49] != 3*time.Second {
			t.Errorf("callers waited %v … %v, %v; want none but the probe's", took[0], took[48], took[49])
		}
		time.Sleep(1100 * time.Millisecond) // by now the probe has ended
		s.fail(1)
		if s.Calls() != before+2 {
			t.Errorf("the call after a slow probe did not probe")
		}
		time.Sleep(3 * time.Second) // until that has ended, too
	})
}

// TestSlowProbeClosesTheBreaker: a probe's caller waits for the store within the timeout,
// and the answer closes the breaker.
func TestSlowProbeClosesTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Allow)
		s.Break(weirtest.Down())
		s.fail(5)
		s.Break(weirtest.Slow(30 * time.Millisecond))
		time.Sleep(time.Second)
		began := time.Now()
		if d, err := s.Allow(ctx, weir.K("42")); err != nil || d.Degraded || d.Remaining != 9 || time.Since(began) != 30*time.Millisecond {
			t.Errorf("the probe's caller got %+v, %v after %v; want the store's decision after 30ms", d, err, time.Since(began))
		}
		s.want(fallback.StoreUp)
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
		s.want(fallback.StoreDown)
	})
}

// TestNeutralCallsDoNotMoveTheBreaker: calls without evidence about the store neither open
// nor close the breaker. After such a probe the next one can run.
func TestNeutralCallsDoNotMoveTheBreaker(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	badInput := func(context.Context, func()) error { return fmt.Errorf("%w: from the store", weir.ErrInput) }
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Deny)
		for range 20 {
			s.Break(badInput)
			if _, err := s.Allow(ctx, weir.K("42")); !errors.Is(err, weir.ErrInput) {
				t.Fatal(err)
			}
			s.Break(weirtest.Silent())
			if _, err := s.Allow(left, weir.K("42")); err != context.Canceled {
				t.Fatal(err)
			}
		}
		s.want(fallback.StoreUp)

		s.Break(weirtest.Down())
		s.fail(5)
		time.Sleep(time.Second)
		s.Break(badInput)
		before := s.Calls()
		for range 3 {
			if _, err := s.Allow(ctx, weir.K("42")); !errors.Is(err, weir.ErrInput) {
				t.Fatal(err)
			}
		}
		s.want(fallback.StoreDown)
		s.Restore()
		if _, err := s.Allow(ctx, weir.K("42")); err != nil || s.Calls() != before+4 {
			t.Errorf("the next call: %v, %d calls of the store; want a probe at once", err, s.Calls()-before)
		}
		s.want(fallback.StoreUp)
	})
}

// TestBreakerFullIsUp: a full store has answered.
func TestBreakerFullIsUp(t *testing.T) {
	full := func(context.Context, func()) error { return fmt.Errorf("%w: from the store", weir.ErrFull) }
	for _, mode := range modes {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, ten, mode)
			s.Break(full)
			for range 20 {
				if d, err := s.Allow(ctx, weir.K("42")); !errors.Is(err, weir.ErrFull) || d.Allowed {
					t.Fatalf("%v: got %+v, %v; want ErrFull", mode, d, err)
				}
			}
			s.want(fallback.StoreUp)
			s.Break(weirtest.Down())
			s.fail(5)
			s.want(fallback.StoreDown)
			s.Break(full)
			time.Sleep(time.Second)
			s.Allow(ctx, weir.K("42"))
			s.want(fallback.StoreUp)
		})
	}
}

// TestBreakerUnreadableIsUp: unreadable data of one key affects that key only. Its calls are
// sent to the store, then decided by the mode, and do not count as failures.
func TestBreakerUnreadableIsUp(t *testing.T) {
	unreadable := func(context.Context, func()) error {
		return fmt.Errorf("%w, %w: from the store", weir.ErrUnreadable, weir.ErrUnavailable)
	}
	for _, mode := range modes {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, ten, mode)
			s.Break(unreadable)
			for range 8 {
				d, err := s.Allow(ctx, weir.K("42"))
				if closed := mode == fallback.Deny; errors.Is(err, weir.ErrUnreadable) != closed || d.Allowed == closed || d.Degraded == closed {
					t.Fatalf("%v: got %+v, %v; want the mode's answer", mode, d, err)
				}
			}
			s.want(fallback.StoreUp)
			if got := s.fallback.Status().Failures; s.Calls() != 8 || got != 8 {
				t.Errorf("%v: %d calls of the store, %d failures; want 8 of both", mode, s.Calls(), got)
			}
			s.Break(weirtest.Down())
			s.fail(5)
			s.want(fallback.StoreDown)
			s.Break(unreadable)
			time.Sleep(time.Second)
			s.Allow(ctx, weir.K("42"))
			s.want(fallback.StoreUp)
		})
	}
}

// TestOnStoreState: changes are reported in order, one at a time, with their cause. The
// callback may use the engine.
func TestOnStoreState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		var s *store
		busy := false
		s = newStore(t, ten, fallback.Allow, fallback.FailureThreshold(1), fallback.OnStoreState(nil), fallback.OnStoreState(func(state fallback.StoreState, cause error) {
			if busy {
				t.Error("a callback ran during another one")
			}
			busy = true
			heard = append(heard, fmt.Sprintf("%v %v %v", state, cause != nil, s.fallback.Status().State))
			if state == fallback.StoreUp { // breaks it again during the callback
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
		want := []string{"down true down", "up false up", "down true down"}
		if !slices.Equal(heard, want) {
			t.Errorf("got %q, want %q", heard, want)
		}
	})
}

// TestOnStoreStatePanics: a callback that panics leaves the breaker intact.
func TestOnStoreStatePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s := newStore(t, ten, fallback.Allow, fallback.FailureThreshold(1), fallback.OnStoreState(func(fallback.StoreState, error) {
			if told++; told == 1 {
				panic("listener")
			}
		}))
		s.Break(weirtest.Down())
		if got := caught(func() { s.fail(1) }); got != "listener" {
			t.Errorf("the caller caught %v, want the listener's panic", got)
		}
		s.want(fallback.StoreDown)
		s.Restore()
		time.Sleep(time.Second)
		s.Allow(ctx, weir.K("42"))
		s.want(fallback.StoreUp)
		if told != 2 {
			t.Errorf("%d callbacks, want 2", told)
		}
	})
}

// caught returns the value that f panics with.
func caught(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
