package weir

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestWaitPassesAtTheAnnouncedInstant: Wait returns at the end of the wait, not later.
func TestWaitPassesAtTheAnnouncedInstant(t *testing.T) {
	for _, mode := range []Mode{AllOrNothing, Partial, CountDenied} {
		synctest.Test(t, func(t *testing.T) {
			p := perUser(2, time.Minute)
			p.Mode, p.Limits[0].MinInterval = mode, time.Second
			l := mustNew(t, p)
			start := time.Now()
			for i, want := range []time.Duration{0, time.Second, time.Minute, time.Minute + time.Second, 2 * time.Minute} {
				d, err := l.Wait(ctx, K("42"))
				if err != nil || !d.Allowed || time.Since(start) != want {
					t.Errorf("%v, wait %d: %v %v after %v, want it allowed after %v", mode, i, d, err, time.Since(start), want)
				}
			}
		})
	}
}

// TestWaitNTakesAllOrNothing: WaitN takes all units or none, in mode Partial too.
func TestWaitNTakesAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := perUser(3, time.Minute)
		p.Mode = Partial
		l := mustNew(t, p)
		l.AllowN(ctx, K("42"), 2)
		start := time.Now()
		d, err := l.WaitN(ctx, K("42"), 2)
		if err != nil || d.Granted != 2 || time.Since(start) != time.Minute {
			t.Errorf("got %+v %v after %v, want 2 after 1m", d, err, time.Since(start))
		}
	})
}

// TestWaitGivesUpAtOnce: Wait returns at once and records nothing if it can never succeed.
func TestWaitGivesUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, perUser(1, time.Minute))
		l.Allow(ctx, K("42"))
		start := time.Now()

		short, cancel := context.WithTimeout(ctx, time.Minute-time.Millisecond)
		defer cancel()
		_, err := l.Wait(short, K("42"))
		var we *WaitError
		if !errors.Is(err, ErrDeadline) || !errors.As(err, &we) || we.Decision.RetryAfter != time.Minute || we.Decision.Limit != "user" {
			t.Errorf("deadline too soon: %v", err)
		}
		_, err = l.WaitN(ctx, K("42"), 2)
		if want := `weir: more units than the limit ever allows: 2 of limit "user", which allows 1; wait for at most 1 at a time`; !errors.Is(err, ErrNever) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := l.Wait(gone, K("7")); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "needs") {
			t.Errorf("cancelled before: %v, want a cancellation without a wait", err)
		}
		assert.Equal(t, time.Since(start), 0, "giving up took")
		if d, _ := l.Peek(ctx, K("7"), 1); !d.Allowed {
			t.Error("who was cancelled was charged")
		}
	})
}

// TestWaitStopsWhenCancelled: a cancelled context ends a wait.
func TestWaitStopsWhenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, perUser(1, time.Minute))
		l.Allow(ctx, K("42"))
		c, cancel := context.WithCancel(ctx)
		time.AfterFunc(10*time.Second, cancel)
		start := time.Now()
		if _, err := l.Wait(c, K("42")); !errors.Is(err, context.Canceled) || time.Since(start) != 10*time.Second {
			t.Errorf("got %v after %v, want a cancellation after 10s", err, time.Since(start))
		}
	})
}

// TestWaitersShareTheWindow: with many waiting callers no window holds more than Max.
func TestWaitersShareTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, perUser(5, time.Second))
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := l.Wait(ctx, K("42")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := time.Since(start); got < 9*time.Second || got > 9*time.Second+time.Millisecond {
			t.Errorf("50 at 5 a second took %v, want 9s", got)
		}
	})
}

// denier denies with an unknown wait, as a fallback may.
type denier struct{ asked int }

func (e *denier) Do(_ context.Context, calls []engine.Call) {
	e.asked++
	calls[0].Result = engine.Result{Degraded: true, At: time.Now()}
}

// TestWaitDoesNotSpin: denials without a wait are retried once a millisecond at most.
func TestWaitDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &denier{}
		c, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := mustNew(t, perUser(1, time.Minute), WithEngine(e)).Wait(c, K("42"))
		if !errors.Is(err, context.DeadlineExceeded) || e.asked < 2 || e.asked > 101 {
			t.Errorf("%d attempts in 100ms (%v), want at most one per millisecond", e.asked, err)
		}
	})
}

// TestWaitFailsWithoutADecision: of a call that failed no result is used, whatever an engine
// left in it (R15).
func TestWaitFailsWithoutADecision(t *testing.T) {
	for _, mode := range []Mode{AllOrNothing, CountDenied} {
		p := perUser(1, time.Minute)
		p.Mode = mode
		l := mustNew(t, p, WithEngine(halfDone{}))
		if d, err := l.Wait(ctx, K("42")); err != ErrFull || d != (Decision{}) {
			t.Errorf("%v: got %+v, %v; want the zero decision", mode, d, err)
		}
		if n, err := l.Count(ctx, K("42"), l.Compiled().Limits[0].Name, time.Second); err != ErrFull || n != 0 {
			t.Errorf("%v: counted %d, %v", mode, n, err)
		}
	}
}

// halfDone fails each call and sets its result.
type halfDone struct{}

func (halfDone) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Result, calls[i].Err = engine.Result{Allowed: true, Granted: 1}, ErrFull
	}
}

// TestNeverIsTheLongestWait: Never was -1, and these lines took it for no wait at all.
func TestNeverIsTheLongestWait(t *testing.T) {
	d, _ := mustNew(t, perUser(2, time.Minute)).AllowN(ctx, K("42"), 3)
	if d.Allowed || d.RetryAfter != Never || Never != math.MaxInt64 {
		t.Fatalf("3 of at most 2: %v; want Never, the largest duration", d)
	}
	if budget := MaxWindow; d.RetryAfter <= budget {
		t.Errorf("%v is within a budget of %v", d.RetryAfter, budget)
	}
	if longest := max(time.Second, d.RetryAfter, time.Hour); longest != Never {
		t.Errorf("the longest of three waits is %v", longest)
	}
	if soonest := min(time.Second, d.RetryAfter, time.Hour); soonest != time.Second {
		t.Errorf("the shortest of three waits is %v", soonest)
	}
	if end := d.At.Add(d.RetryAfter); !end.After(time.UnixMicro(MaxInstant)) {
		t.Errorf("the end of the wait, %v, is before the last instant", end)
	}
}

// TestSleepOnNeverDoesNotSpin: Never was -1, and each of these calls returned immediately. So a
// loop around them was busy.
func TestSleepOnNeverDoesNotSpin(t *testing.T) {
	for name, sleep := range map[string]func(context.Context, time.Duration){
		"time.NewTimer": func(ctx context.Context, wait time.Duration) {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		},
		"context.WithTimeout": func(ctx context.Context, wait time.Duration) {
			pause, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			<-pause.Done()
		},
		"time.AfterFunc": func(ctx context.Context, wait time.Duration) {
			over := make(chan struct{})
			timer := time.AfterFunc(wait, func() { close(over) })
			defer timer.Stop()
			select {
			case <-over:
			case <-ctx.Done():
			}
		},
		"time.Sleep": func(_ context.Context, wait time.Duration) { time.Sleep(wait) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := mustNew(t, perUser(2, time.Minute))
			long, cancel := context.WithTimeout(ctx, MaxWindow)
			defer cancel()
			attempts := 0
			for long.Err() == nil && attempts < 9 {
				d, _ := l.AllowN(ctx, K("42"), 3)
				attempts++
				sleep(long, d.RetryAfter)
			}
			if attempts != 1 {
				t.Errorf("%s: %d attempts in %v, want 1", name, attempts, MaxWindow)
			}
		})
	}
}

// TestInstantAfterNeverIsBadInput: the end of a wait that never ends is after the last instant.
func TestInstantAfterNeverIsBadInput(t *testing.T) {
	for _, at := range []int64{0, 1_767_600_000_000_000, MaxInstant} {
		l := mustNew(t, perUser(2, time.Minute))
		d, err := l.At(time.UnixMicro(at)).AllowN(ctx, K("42"), 3)
		if err != nil || d.RetryAfter != Never {
			t.Fatalf("at %d µs: %v, %v", at, d, err)
		}
		if _, err := l.At(d.At.Add(d.RetryAfter)).Allow(ctx, K("42")); !errors.Is(err, ErrInput) {
			t.Errorf("at %d µs and Never: %v, want bad input", at, err)
		}
	}
}
