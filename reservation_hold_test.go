package weir_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirdisk"
	"github.com/weirlimit/weir/weirtest"
)

// farm returns a limiter of 3 at once for at most 30s, 2 a render farm, and 100 a day.
func farm(opts ...weir.Option) *weir.Limiter {
	return must(weir.New(weir.Policy{Name: "render", Limits: []weir.Limit{
		{Name: "day", Max: 100, Window: 24 * time.Hour, By: []string{"tenant"}},
		{Name: "running", Kind: weir.KindConcurrency, Max: 3, MaxHold: 30 * time.Second, By: []string{"tenant"}},
		{Name: "all", Kind: weir.KindConcurrency, Max: 50, MaxHold: time.Minute, Cost: 5},
	}}, opts...))
}

// TestSettlementsEndHolds: Done keeps the charge of the rates, Commit corrects it and
// Cancel takes it back. All of them end the hold.
func TestSettlementsEndHolds(t *testing.T) {
	for name, c := range map[string]struct {
		settle func(*weir.Reservation) error
		day    int64
	}{
		"done":        {func(r *weir.Reservation) error { return r.Done(ctx) }, 2},
		"commit all":  {func(r *weir.Reservation) error { return r.Commit(ctx, 2) }, 2},
		"commit":      {func(r *weir.Reservation) error { return r.Commit(ctx, 1) }, 1},
		"commit more": {func(r *weir.Reservation) error { return r.Commit(ctx, 7) }, 7},
		"cancel":      {func(r *weir.Reservation) error { return r.Cancel(ctx) }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := farm()
			r, other := reserve(t, l, 2), reserve(t, l, 1)
			wantUsed(t, l, 3, 3, 10)
			if r, d, err := l.Reserve(ctx, acme, weir.Request{N: 1}); r != nil || d.Allowed || err != nil || d.Limit != "running" {
				t.Errorf("a fourth: %+v, %v; want a denial of running", d, err)
			}
			wantUsed(t, l, 3, 3, 10) // a denial for concurrency charges no rate
			wantError(t, name, c.settle(r), nil)
			wantUsed(t, l, c.day+1, 1, 5)
			wantError(t, name+", again", c.settle(r), nil)
			for _, other := range []error{r.Commit(ctx, 5), r.Extend(ctx), second(r.Add(ctx, 1))} {
				wantError(t, name+", then another call", other, weir.ErrSettled)
			}
			wantUsed(t, l, c.day+1, 1, 5)
			time.Sleep(30*time.Second - time.Microsecond)
			wantUsed(t, l, c.day+1, 1, 5)
			time.Sleep(time.Microsecond)
			wantUsed(t, l, c.day+1, 0, 5) // the hold of other ended by time
			wantError(t, "a hold of which a limit is left", other.Done(ctx), nil)
			wantUsed(t, l, c.day+1, 0, 0)
		})
	}
}

// TestHoldsEndAtACap: while invented keys fill an engine up to its cap, a settlement ends its
// hold, once, and the engine can be opened again with the same cap (R13).
func TestHoldsEndAtACap(t *testing.T) {
	dir := t.TempDir()
	p := weir.Policy{Name: "jobs", Limits: []weir.Limit{
		{Name: "all", Kind: weir.KindConcurrency, Max: 2, MaxHold: time.Hour, By: []string{"tenant"}},
		{Name: "hour", Max: 9, Window: time.Hour, By: []string{"tenant"}},
	}}
	disk := func() engine.Engine { return must(weirdisk.Open(dir, weirdisk.MaxKeys(20))) }
	for name, newEngine := range map[string]func() engine.Engine{
		"memory":            func() engine.Engine { return weir.NewMemory(weir.MaxKeys(20)) },
		"fallback on keys":  func() engine.Engine { return fallback.New(weir.NewMemory(weir.MaxKeys(20)), fallback.Deny) },
		"fallback on bytes": func() engine.Engine { return fallback.New(weir.NewMemory(weir.MaxBytes(1<<20)), fallback.Deny) },
		"disk":              disk,
	} {
		e := newEngine()
		jobs := must(weir.New(p, weir.WithEngine(e)))
		done, cancelled := reserve(t, jobs, 1), reserve(t, jobs, 1)
		logins := must(weir.New(weir.Policy{Name: "logins", Limits: []weir.Limit{weir.PerHour(1e6, "user")}}, weir.WithEngine(e)))
		for _, key := range []string{"invented", "known"} { // operations fill the room of a last history, too
			var full error
			for i := 0; i < 1e6 && full == nil; i++ {
				k := weir.K(key)
				if key == "invented" {
					k = weir.K(fmt.Sprint(key, i))
				}
				_, full = logins.AllowOnce(ctx, k, 1, fmt.Sprint(i))
			}
			wantError(t, name, full, weir.ErrFull)
		}
		wantError(t, name+", done", done.Done(ctx), nil)
		wantError(t, name+", cancel", cancelled.Cancel(ctx), nil)
		again := weir.Call{Limiter: jobs, Key: acme, Op: engine.Refund, From: time.Now(),
			Request: weir.Request{N: 1, ID: "a refund of nothing"}}
		assert.Equal(t, must(again.Do(ctx)).Granted, 0, "%s: a refund of nothing", name)
		for range 2 {
			states := make([]weir.LimitState, 2)
			peek := weir.Call{Limiter: jobs, Key: acme, Op: engine.Peek, Request: weir.Request{States: states}}
			if _, err := peek.Do(ctx); err != nil || states[0].Used != 0 || states[1].Used != 1 {
				t.Errorf("%s: %+v, %v; want no hold, and the charge of done", name, states, err)
			}
			if d, ok := e.(*weirdisk.Engine); ok { // also after a start
				must(0, d.Close())
				e = disk()
				defer e.(*weirdisk.Engine).Close()
				jobs = must(weir.New(p, weir.WithEngine(e)))
			}
		}
	}
}

// TestHoldEndsByTime: Done reports a hold that ended by time; the rates are still
// corrected until the reservation expires.
func TestHoldEndsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := farm()
		r := reserve(t, l, 2)
		assert.Equal(t, time.Until(r.HeldUntil()), 30*time.Second, "held for")
		time.Sleep(time.Minute)
		wantError(t, "done", r.Done(ctx), weir.ErrExpired)
		wantError(t, "extend", r.Extend(ctx), weir.ErrExpired)
		wantUsed(t, l, 2, 0, 0)
		wantError(t, "commit", r.Commit(ctx, 1), nil)
		wantUsed(t, l, 1, 0, 0)
		wantError(t, "done", r.Done(ctx), weir.ErrSettled)
	})
}

// TestExtendRenewsAHold: an extension holds for another MaxHold, renews the time to live, and leaves
// the rates as they are.
func TestExtendRenewsAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := farm()
		r := reserveFor(t, l, weir.Request{N: 2, TTL: time.Minute})
		for range 3 {
			time.Sleep(29 * time.Second)
			wantError(t, "extend", r.Extend(ctx), nil)
			wantUsed(t, l, 2, 2, 5)
		}
		time.Sleep(30*time.Second - time.Microsecond)
		wantUsed(t, l, 2, 2, 5)
		time.Sleep(time.Microsecond)
		wantUsed(t, l, 2, 0, 5)
		wantError(t, "a hold that ended", r.Extend(ctx), weir.ErrExpired)
		wantUsed(t, l, 2, 0, 5)
		wantError(t, "cancel", r.Cancel(ctx), nil)
		wantUsed(t, l, 0, 0, 0)
	})
}

// TestExtendWithoutAHold: an extension renews the life under any policy. A hold whose units were
// taken back cannot be extended.
func TestExtendWithoutAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reserveFor(t, model(weir.AllOrNothing), weir.Request{N: 10, TTL: time.Minute})
		time.Sleep(time.Minute - time.Microsecond)
		wantError(t, "extend", r.Extend(ctx), nil)
		assert.Equal(t, time.Until(r.ExpiresAt()), time.Minute, "life")
		assert.Equal(t, r.HeldUntil(), time.Time{}, "end of no hold")
		time.Sleep(time.Minute - time.Microsecond)
		wantError(t, "Done without a hold", r.Done(ctx), nil)
	})
	l := farm()
	r, d, err := l.Reserve(ctx, acme, weir.Request{N: 2})
	if err != nil {
		t.Fatal(err)
	}
	must(l.Refund(ctx, acme, d.At, 2))
	wantError(t, "units that were taken back", r.Extend(ctx), weir.ErrExpired)
	wantUsed(t, l, 0, 0, 0)
}

// TestAddRenewsAHold: further units are taken of no concurrency limit and of none with a cost, and
// the hold of the first units is renewed.
func TestAddRenewsAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := farm()
		r := reserve(t, l, 2)
		time.Sleep(20 * time.Second)
		wantError(t, "90 more", second(r.Add(ctx, 90)), nil)
		assert.Equal(t, time.Until(r.HeldUntil()), 30*time.Second, "the hold lasts")
		wantUsed(t, l, 92, 2, 5)
		time.Sleep(20 * time.Second)
		before := r.HeldUntil()
		d, err := r.Add(ctx, 9)
		if err != nil || d.Allowed || d.Limit != "day" || !r.HeldUntil().Equal(before) {
			t.Errorf("9 more: %+v, %v, held until %v; want a denial of day that renews nothing", d, err, r.HeldUntil())
		}
		wantError(t, "commit", r.Commit(ctx, 10), nil)
		wantUsed(t, l, 10, 0, 0)
	})
}

// slow is an engine of which some calls take a time, there and back.
type slow struct {
	engine.Engine
	op            engine.Op
	before, after time.Duration
}

func (s *slow) Do(ctx context.Context, calls []engine.Call) {
	if calls[0].Op == s.op {
		time.Sleep(s.before)
		defer time.Sleep(s.after)
	}
	s.Engine.Do(ctx, calls)
}

// skewed is an engine whose clock is ahead of that of the process.
type skewed struct {
	engine.Engine
	ahead time.Duration
}

func (s *skewed) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Given, calls[i].At = true, time.Now().Add(s.ahead).UnixMicro()
	}
	s.Engine.Do(ctx, calls)
}

// TestLifeIsByTheClockOfTheStore: a reservation and its extension last from their decisions by the
// store's clock, also after lost answers, whatever the clock of the process is.
func TestLifeIsByTheClockOfTheStore(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, -time.Minute, 0, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store := weirtest.NewFaulty(&skewed{weir.NewMemory(), ahead})
			l := must(weir.New(weir.Policy{Name: "render", Limits: []weir.Limit{
				{Name: "running", Kind: weir.KindConcurrency, Max: 3, MaxHold: 30 * time.Second, By: []string{"tenant"}},
			}}, weir.WithEngine(store)))
			lost := func(call func() error) {
				t.Helper()
				store.Break(weirtest.Lost())
				wantError(t, "a lost answer", call(), weir.ErrOutcomeUnknown)
				store.Restore()
				time.Sleep(5 * time.Second)
			}
			left := func(r *weir.Reservation) time.Duration { return r.HeldUntil().Sub(time.Now().Add(ahead)) }
			request := weir.Request{N: 2, ID: "a job"}
			lost(func() error { _, _, err := l.Reserve(ctx, acme, request); return err })
			r := reserveFor(t, l, request)
			assert.Equal(t, left(r), 25*time.Second, "rest of the hold, 5s after its decision")
			assert.Equal(t, r.ExpiresAt(), r.HeldUntil(), "end of its life")
			lost(func() error { return r.Extend(ctx) })
			wantError(t, "extend", r.Extend(ctx), nil)
			assert.Equal(t, left(r), 30*time.Second, "rest of the extended hold")
			time.Sleep(30*time.Second - time.Microsecond)
			wantError(t, "extend again", r.Extend(ctx), nil)
			wantUsed(t, l, 2)
			time.Sleep(30 * time.Second)
			wantError(t, "cancel", r.Cancel(ctx), weir.ErrExpired)
			wantUsed(t, l, 0)
		})
	}
}

// TestExtensionsByARepeatedID: after a crash a reservation by the ID of an extended one is that one,
// with its hold.
func TestExtensionsByARepeatedID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := farm()
		request := weir.Request{N: 2, ID: "a job"}
		lost := reserveFor(t, l, request)
		time.Sleep(20 * time.Second)
		wantError(t, "extend", lost.Extend(ctx), nil)
		time.Sleep(20 * time.Second)
		r := reserveFor(t, l, request)
		assert.Equal(t, time.Until(r.HeldUntil()), 10*time.Second, "the hold lasts")
		wantError(t, "extend by the ID", r.Extend(ctx), nil)
		wantUsed(t, l, 2, 2, 5)
		time.Sleep(25 * time.Second)
		wantError(t, "done by the first one", lost.Done(ctx), nil)
		wantUsed(t, l, 2, 0, 0)
		wantError(t, "done again", r.Done(ctx), nil)
	})
}

// TestFaultsInARow: whatever faults follow each other, further units are taken once, and an
// extension and a settlement that succeed leave the units held once, or not at all.
func TestFaultsInARow(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 17))
			var choosing sync.Mutex // protects the choice of faults: probes of the fallback come beside calls
			chosen := rand.New(rand.NewPCG(seed, 18))
			memory := weir.NewMemory()
			store := weirtest.NewFaulty(memory)
			mode := engine.Outage(random.IntN(4)) // the default stands for no fallback
			var e engine.Engine = store
			if mode != engine.OutageDefault {
				e = fallback.New(store, mode, fallback.FailureThreshold(2*random.IntN(2)))
			}
			l, direct := farm(weir.WithEngine(e)), farm(weir.WithEngine(memory))
			r := reserve(t, l, 2)
			trace := fmt.Sprintf("seed %d, mode %v:", seed, mode)
			call := func(name string, change func(context.Context) error) error {
				time.Sleep(time.Second)
				own, leave := context.WithCancel(ctx)
				defer leave()
				left := func(c context.Context, call func()) error {
					call()
					leave()
					<-c.Done()
					return fmt.Errorf("%w: %w", weir.ErrOutcomeUnknown, c.Err())
				}
				faults := []weirtest.Fault{weirtest.Down(), weirtest.Lost(), unsure, left, weirtest.Slow(0), weirtest.Slow(0)}
				store.Break(func(ctx context.Context, call func()) error {
					choosing.Lock()
					fault := faults[chosen.IntN(len(faults))]
					choosing.Unlock()
					return fault(ctx, call)
				})
				err := change(own)
				trace += fmt.Sprintf("\n%s: %v", name, err)
				if errors.Is(err, weir.ErrExpired) || errors.Is(err, weir.ErrSettled) || errors.Is(err, weir.ErrInput) {
					t.Fatal(trace)
				}
				return err
			}
			// repeat makes a call until it is answered, without faults at last.
			repeat := func(name string, change func(context.Context) error) {
				for range 10 {
					if call(name, change) == nil {
						return
					}
				}
				store.Restore()
				time.Sleep(time.Second)
				if err := change(ctx); err != nil {
					t.Fatalf("%s\n%s at last: %v", trace, name, err)
				}
			}
			check := func(want ...int64) {
				t.Helper()
				if wantUsed(t, direct, want...); t.Failed() {
					t.Fatal(trace)
				}
			}
			units := int64(2)
			for range random.IntN(10) {
				n := random.Int64N(4)
				switch {
				case n == 0 && call("extend", r.Extend) == nil:
					check(units, 2, 5)
				case n > 0: // in doubt, an Add is repeated before any other one
					repeat(fmt.Sprint("add ", n), func(ctx context.Context) error { return second(r.Add(ctx, n)) })
					units += n
					check(units, 2, 5)
				}
			}
			assert.Equal(t, r.Units(), units, "units of the reservation\n%s", trace)
			actual := units
			if random.IntN(2) == 0 {
				actual = units + random.Int64N(6)
			}
			settle := func(ctx context.Context) error { return r.Commit(ctx, actual) }
			if actual == units {
				settle = r.Done
			}
			repeat(fmt.Sprint("settle ", actual), settle)
			check(actual, 0, 0)
			repeat("settle again", settle)
			check(actual, 0, 0)
		})
	}
}

// TestAddsWaitWithinTheirContexts: an Add that waits for another one of its handle returns when its
// own context ends, and has changed nothing. Other calls do not wait.
func TestAddsWaitWithinTheirContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := weirtest.NewFaulty(weir.NewMemory())
		l := farm(weir.WithEngine(store))
		r := reserve(t, l, 2)
		store.Break(weirtest.Silent())
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			r.Add(ctx, 5)
		}()
		synctest.Wait()
		store.Restore()
		own, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		wantError(t, "another add", second(r.Add(own, 5)), context.DeadlineExceeded)
		assert.Equal(t, time.Since(began), 100*time.Millisecond, "it waited for")
		wantError(t, "extend", r.Extend(own), nil)
		assert.Equal(t, time.Since(began), 100*time.Millisecond, "the extension waited for nothing")
		time.Sleep(3 * time.Second)
		wantError(t, "an add without a need to wait", second(r.Add(own, 5)), nil)
		wantUsed(t, l, 7, 2, 5)
	})
}
