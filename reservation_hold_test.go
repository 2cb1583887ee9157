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
			for _, again := range []error{r.Done(ctx), r.Commit(ctx, 1), r.Cancel(ctx), r.Extend(ctx)} {
				wantError(t, name+", again", again, weir.ErrSettled)
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

// TestExtendOfNoHold: a policy without holds, and units that were taken back.
func TestExtendOfNoHold(t *testing.T) {
	r := reserve(t, model(weir.AllOrNothing), 10)
	if err := r.Extend(ctx); !errors.Is(err, &weir.InputError{Field: "kind"}) || !errors.Is(err, weir.ErrInput) || !r.HeldUntil().IsZero() {
		t.Errorf("%v, %v; want errKind", err, r.HeldUntil())
	}
	wantError(t, "Done without a hold", r.Done(ctx), nil)
	l := farm()
	r, d, err := l.Reserve(ctx, acme, weir.Request{N: 2})
	if err != nil {
		t.Fatal(err)
	}
	must(l.Refund(ctx, acme, d.At, 2))
	wantError(t, "units that were taken back", r.Extend(ctx), weir.ErrExpired)
	wantUsed(t, l, 0, 0, 0)
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

// TestExtendThatComesTooLate: if the hold ends before the record of its extension, or
// before the old units are taken back, nothing stays held.
func TestExtendThatComesTooLate(t *testing.T) {
	for _, c := range []slow{{before: 2 * time.Second}, {after: 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			l := must(weir.New(weir.Policy{Name: "render", Limits: []weir.Limit{
				{Name: "day", Max: 100, Window: 24 * time.Hour, By: []string{"tenant"}},
				{Name: "running", Kind: weir.KindConcurrency, Max: 3, MaxHold: 30 * time.Second, By: []string{"tenant"}},
			}}, weir.WithEngine(&slow{weir.NewMemory(), engine.Record, c.before, c.after})))
			r := reserve(t, l, 2)
			time.Sleep(29 * time.Second)
			wantError(t, "extend", r.Extend(ctx), weir.ErrExpired)
			wantUsed(t, l, 2, 0)
		})
	}
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

// TestReplaysByTheClockOfTheStore: after lost answers a reservation and its extension last from
// their decisions, whatever the clock of the process is.
func TestReplaysByTheClockOfTheStore(t *testing.T) {
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
			request := weir.Request{N: 2, ID: "a job"}
			reserve := func() error { _, _, err := l.Reserve(ctx, acme, request); return err }
			lost(reserve)
			early, r := reserveFor(t, l, request), reserveFor(t, l, request)
			time.Sleep(20*time.Second - time.Microsecond)
			lost(func() error { return r.Extend(ctx) })
			wantError(t, "extend", r.Extend(ctx), nil)
			time.Sleep(time.Microsecond)
			wantError(t, "30s after the first decision", early.Cancel(ctx), weir.ErrExpired)
			time.Sleep(25*time.Second - 3*time.Microsecond) // since the lost extension 30s have almost passed
			wantError(t, "extend again", r.Extend(ctx), nil)
			wantUsed(t, l, 2)
			wantError(t, "done", r.Done(ctx), nil)
			wantUsed(t, l, 0)
		})
	}
}

// TestExtensionsByARepeatedID: after a crash a reservation by the ID of an extended one extends
// that hold, from now on.
func TestExtensionsByARepeatedID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := farm()
		request := weir.Request{N: 2, ID: "a job"}
		lost := reserveFor(t, l, request)
		for range 3 {
			time.Sleep(5 * time.Second)
			wantError(t, "extend", lost.Extend(ctx), nil)
		}
		time.Sleep(10 * time.Second)
		r := reserveFor(t, l, request)
		for range 2 {
			wantError(t, "extend by the ID", r.Extend(ctx), nil)
			assert.Equal(t, time.Until(r.HeldUntil()), 30*time.Second, "the hold lasts")
			wantUsed(t, l, 2, 2, 5)
			time.Sleep(25 * time.Second)
		}
		wantError(t, "done", r.Done(ctx), nil)
		wantUsed(t, l, 2, 0, 0)
	})
}

// TestFaultsInARow: whatever faults follow each other, an extension and a settlement that
// succeed leave the units held once, or not at all.
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
				if errors.Is(err, weir.ErrExpired) || errors.Is(err, weir.ErrSettled) {
					t.Fatal(trace)
				}
				return err
			}
			check := func(want ...int64) {
				t.Helper()
				if wantUsed(t, direct, want...); t.Failed() {
					t.Fatal(trace)
				}
			}
			for range random.IntN(10) {
				if call("extend", r.Extend) == nil {
					check(2, 2, 5)
				}
			}
			actual := random.Int64N(3)
			if mode <= fallback.Deny { // units beyond the reservation are recorded in the store or not at all
				actual = random.Int64N(6)
			}
			settle := func(ctx context.Context) error { return r.Commit(ctx, actual) }
			if actual == 2 {
				settle = r.Done
			}
			for range 15 {
				if call(fmt.Sprint("settle ", actual), settle) == nil {
					break
				}
			}
			store.Restore()
			time.Sleep(time.Second)
			if err := settle(ctx); err != nil && !errors.Is(err, weir.ErrSettled) {
				t.Fatalf("%s\nat last: %v", trace, err)
			}
			check(actual, 0, 0)
		})
	}
}

// TestCallsWaitWithinTheirContexts: a call that waits for another one of its reservation returns when
// its own context ends, and has changed nothing.
func TestCallsWaitWithinTheirContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := weirtest.NewFaulty(weir.NewMemory())
		l := farm(weir.WithEngine(store))
		r := reserve(t, l, 2)
		store.Break(weirtest.Silent())
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			r.Extend(ctx)
		}()
		synctest.Wait()
		for name, call := range map[string]func(context.Context) error{"extend": r.Extend, "done": r.Done, "cancel": r.Cancel} {
			own, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			began := time.Now()
			wantError(t, name, call(own), context.DeadlineExceeded)
			assert.Equal(t, time.Since(began), 100*time.Millisecond, "%s waited for", name)
			cancel()
		}
		store.Restore()
		ended, cancel := context.WithCancel(ctx)
		cancel()
		time.Sleep(3 * time.Second)
		wantError(t, "done, without a need to wait", r.Done(ended), nil)
		wantUsed(t, l, 2, 0, 0)
	})
}

// TestDegradedHolds: a fallback's grant is in no store, so its end and its extension change
// nothing there. A hold of the store cannot be extended without it.
func TestDegradedHolds(t *testing.T) {
	for _, mode := range []engine.Outage{fallback.Allow, fallback.Share} {
		synctest.Test(t, func(t *testing.T) {
			store := weirtest.NewFaulty(weir.NewMemory())
			l := farm(weir.WithEngine(fallback.New(store, mode, fallback.FailureThreshold(0))))
			held := reserve(t, l, 2)
			store.Break(weirtest.Down())
			r := reserve(t, l, 1)
			wantError(t, "extend", r.Extend(ctx), nil)
			wantError(t, "extend of a hold of the store", held.Extend(ctx), weir.ErrUnavailable)
			wantError(t, "done of a hold of the store", held.Done(ctx), weir.ErrUnavailable)
			store.Restore()
			wantError(t, "cancel", r.Cancel(ctx), nil) // the units of held are at the same instant
			wantUsed(t, l, 2, 2, 5)
			time.Sleep(time.Second)
			wantError(t, "when it is back", errors.Join(held.Extend(ctx), held.Done(ctx)), nil)
			wantUsed(t, l, 2, 0, 0)
		})
	}
}
