package weir_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// renders returns a limiter of 2 renders at once for each tenant and 3 in all, for at most an hour.
func renders(opts ...weir.Option) *weir.Limiter {
	return must(weir.New(weir.Policy{Name: "render", Limits: []weir.Limit{
		weir.AtOnce(2, time.Hour, "tenant").Named("tenant"),
		weir.AtOnce(3, time.Hour).Named("all"),
	}}, opts...))
}

// waitingFor starts callers that wait for a key, one after the other, and returns those that were
// served so far.
func waitingFor(t *testing.T, l *weir.Limiter, key weir.Key, names ...string) (served func() string) {
	var mu sync.Mutex
	var order []string
	for _, name := range names {
		go func() {
			if _, err := l.Wait(t.Context(), key); err != nil { // the test is over
				return
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
		}()
		synctest.Wait()
	}
	return func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(order)
	}
}

// TestWaitWakesAtARelease: every settlement in this process, and a refund, wakes the callers that
// wait for the hold immediately, in the order of their calls.
func TestWaitWakesAtARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Engine: weir.NewMemory()}
		l := renders(weir.WithEngine(store))
		other := renders(weir.WithEngine(store)) // on the same engine
		first, second := reserve(t, l, 1), reserve(t, l, 1)
		start := time.Now()
		served := waitingFor(t, l, acme, "a", "b", "c", "d")
		if got := served(); got != "[]" || store.calls.Load() != 3 {
			t.Fatalf("served %s with %d calls; want none, and one attempt of the first", got, store.calls.Load())
		}
		wantError(t, "done", first.Done(ctx), nil)
		if got := served(); got != "[a]" {
			t.Errorf("after Done: %s", got)
		}
		handle := must(other.Reservation(acme, second.ID()))
		wantError(t, "cancel", handle.Cancel(ctx), nil)
		if got := served(); got != "[a b]" {
			t.Errorf("after Cancel of another limiter: %s", got)
		}
		for _, want := range []string{"[a b c]", "[a b c d]"} { // a refund ends a hold of Wait
			must(l.Refund(ctx, acme, start, 1))
			if got := served(); got != want {
				t.Errorf("after a refund: %s, want %s", got, want)
			}
		}
		if time.Since(start) != 0 {
			t.Errorf("the callers waited for %v", time.Since(start))
		}
	})
}

// TestWaitFindsReleasesOfOthers: an end of a hold that this process does not see is found within a
// quarter of a second, by the first caller alone.
func TestWaitFindsReleasesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := weir.NewMemory()
		store := &counted{Engine: memory}
		l := renders(weir.WithEngine(store))
		elsewhere := renders(weir.WithEngine(&counted{Engine: memory})) // another process
		r := reserve(t, elsewhere, 2)
		start := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				must(l.Wait(ctx, acme))
				if waited := time.Since(start); waited < 10*time.Second || waited > 10*time.Second+250*time.Millisecond {
					t.Errorf("served after %v, want at most 250ms after the release at 10s", waited)
				}
			})
		}
		time.Sleep(10 * time.Second)
		before := store.calls.Load()
		wantError(t, "done", r.Done(ctx), nil)
		all.Wait()
		if before < 40 || before > 70 {
			t.Errorf("%d attempts in 10s, want one each 150 to 250ms", before)
		}
	})
}

// TestWaitEndsWithAHold: a hold that ends by time makes room at that instant.
func TestWaitEndsWithAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := renders()
		reserve(t, l, 2)
		start := time.Now()
		must(l.Wait(ctx, acme))
		if waited := time.Since(start).Truncate(time.Microsecond); waited != time.Hour {
			t.Errorf("served after %v, want 1h", waited)
		}
	})
}

// TestWaitBlocksNoOtherKey: a caller waits only behind those that wait for a history of its own.
func TestWaitBlocksNoOtherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := renders()
		held := reserve(t, l, 2)
		servedA := waitingFor(t, l, acme, "a1", "a2")
		servedB := waitingFor(t, l, weir.K("beta"), "b1", "b2", "b3")
		if a, b := servedA(), servedB(); a != "[]" || b != "[b1]" {
			t.Errorf("served %s and %s; want b1, which takes the last of all", a, b)
		}
		wantError(t, "done", held.Done(ctx), nil) // two of all are free, and two of acme
		if got := servedA() + servedB(); got != "[a1][b1 b2]" && got != "[a1 a2][b1]" {
			t.Errorf("served %s; want a1, and one more of the two lines", got)
		}
	})
}

// TestWaitUnderAHoldGivesUp: with its context, and immediately for more than ever fits, also behind
// others. One that leaves lets the next one try.
func TestWaitUnderAHoldGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := weir.Policy{Name: "jobs", Limits: []weir.Limit{
			weir.AtOnce(1, time.Hour).Named("running"), weir.PerMinute(2).Named("minute")}}
		l := must(weir.New(p))
		r, _, err := l.Reserve(ctx, weir.K(), weir.Request{N: 1})
		wantError(t, "reserve", err, nil)
		start := time.Now()
		own, leave := context.WithTimeout(ctx, 10*time.Second)
		defer leave()
		go func() {
			_, err := l.Wait(own, weir.K())
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
				t.Errorf("a deadline before the end of the hold: %v after %v, want 10s", err, time.Since(start))
			}
		}()
		synctest.Wait()
		_, err = l.WaitN(ctx, weir.K(), 2)
		if !errors.Is(err, weir.ErrNever) || time.Since(start) != 0 {
			t.Errorf("more than ever fits: %v after %v", err, time.Since(start))
		}
		served := waitingFor(t, l, weir.K(), "next")
		time.AfterFunc(20*time.Second, func() { r.Done(ctx) })
		time.Sleep(20*time.Second + time.Nanosecond)
		if got := served(); got != "[next]" {
			t.Errorf("at the release: %s", got)
		}
		must(l.Refund(ctx, weir.K(), start.Add(20*time.Second), 1)) // ends its hold
		must(l.Allow(ctx, weir.K()))                                // takes the last of the minute
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		begin := time.Now()
		if _, err = l.Wait(soon, weir.K()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("behind a hold of an hour: %v after %v, want the deadline", err, time.Since(begin))
		}
	})
}

// TestWaitUnderAHoldKnowsOtherLimits: the wait of a limit without holds is exact, so a caller whose
// deadline is before its end gives up immediately.
func TestWaitUnderAHoldKnowsOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := must(weir.New(weir.Policy{Name: "jobs", Limits: []weir.Limit{
			weir.AtOnce(9, time.Second).Named("running"), weir.PerMinute(1).Named("minute")}}))
		must(l.Allow(ctx, weir.K()))
		start := time.Now()
		soon, cancel := context.WithTimeout(ctx, 59*time.Second)
		defer cancel()
		_, err := l.Wait(soon, weir.K())
		if !errors.Is(err, weir.ErrDeadline) || time.Since(start) != 0 {
			t.Errorf("%v after %v, want ErrDeadline immediately", err, time.Since(start))
		}
		must(l.Wait(ctx, weir.K()))
		if time.Since(start) != time.Minute {
			t.Errorf("served after %v, want 1m", time.Since(start))
		}
	})
}

// TestWaitReleaseDuringAnAttempt: a hold that ends between the attempt of a caller and its sleep
// wakes it.
func TestWaitReleaseDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var release func()
		e := weir.Observe(weir.NewMemory(), func(_ context.Context, c *engine.Call, _ time.Duration) {
			if c.Op == engine.Attempt && !c.Result.Allowed && release != nil {
				do := release
				release = nil
				do()
			}
		})
		l := renders(weir.WithEngine(e))
		r := reserve(t, l, 2)
		release = func() { wantError(t, "done", r.Done(ctx), nil) }
		start := time.Now()
		must(l.Wait(ctx, acme))
		if time.Since(start) != 0 {
			t.Errorf("served after %v, want immediately", time.Since(start))
		}
	})
}
