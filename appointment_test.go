package weir_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// booking are the engines with appointments.
var booking = map[string]func() engine.Engine{
	"specification": func() engine.Engine { return spec.New() },
	"memory":        func() engine.Engine { return weir.NewMemory() },
}

// eachBooking runs a test in a bubble, on each engine with appointments.
func eachBooking(t *testing.T, test func(*testing.T, engine.Engine)) {
	for name, newEngine := range booking {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newEngine()) })
		})
	}
}

// counted counts the calls of an engine.
type counted struct {
	engine.Engine
	calls atomic.Int64
}

func (c *counted) Do(ctx context.Context, calls []engine.Call) {
	c.calls.Add(int64(len(calls)))
	c.Engine.Do(ctx, calls)
}

// mails is a policy of some mails a second.
func mails(n int64, change ...func(*weir.Limit)) weir.Policy {
	limit := weir.PerSecond(n, "from")
	for _, f := range change {
		f(&limit)
	}
	return weir.Policy{Name: "mails", Limits: []weir.Limit{limit}}
}

// TestWaitIsOneCall: a waiting caller makes one call and sleeps until its instant.
func TestWaitIsOneCall(t *testing.T) {
	for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial} {
		eachBooking(t, func(t *testing.T, e engine.Engine) {
			store := &counted{Engine: e}
			p := mails(2, func(l *weir.Limit) { l.MinInterval = 100 * time.Millisecond })
			p.Mode = mode
			l := must(weir.New(p, weir.WithEngine(store)))
			start := time.Now()
			for i, want := range []time.Duration{0, 100, 1000, 1100, 2000} {
				want *= time.Millisecond
				d, err := l.Wait(ctx, acme)
				begin := d.At.Add(d.StartAfter).Sub(start)
				if err != nil || !d.Allowed || time.Since(start) != want || begin != want || store.calls.Load() != int64(i+1) {
					t.Errorf("%v, wait %d: %v %v after %v with %d calls, to begin after %v; want %v and one call each",
						mode, i, d, err, time.Since(start), store.calls.Load(), begin, want)
				}
			}
			d, err := l.WaitN(ctx, acme, 2)
			if err != nil || d.Granted != 2 || time.Since(start) != 3*time.Second {
				t.Errorf("%v: two at once: %v %v after %v, want 3s", mode, d, err, time.Since(start))
			}
		})
	}
}

// TestWaitersAreServedInOrder: each caller gets its instant when it begins to wait, and later ones
// get later instants. Callers without MaxWait see the appointments.
func TestWaitersAreServedInOrder(t *testing.T) {
	eachBooking(t, func(t *testing.T, e engine.Engine) {
		l := must(weir.New(mails(1), weir.WithEngine(e)))
		var mu sync.Mutex
		var served []int
		start := time.Now()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				must(l.Wait(ctx, acme))
				mu.Lock()
				defer mu.Unlock()
				served = append(served, i)
				assert.Equal(t, time.Since(start), time.Duration(i)*time.Second, "caller %d", i)
			})
			synctest.Wait()
		}
		states := make([]weir.LimitState, 1)
		d := must(l.Decide(ctx, acme, weir.Request{N: 1, States: states}))
		if d.Allowed || d.RetryAfter != 5*time.Second || states[0].Ahead != 4 || states[0].LastAhead != 4*time.Second {
			t.Errorf("without MaxWait: %+v, %+v; want a wait of 5s behind 4 that are ahead", d, states[0])
		}
		all.Wait()
		assert.Equal(t, fmt.Sprint(served), "[0 1 2 3 4]", "the order")
	})
}

// TestWaitGivesUpWithoutACharge: a wait beyond the deadline or for ever is one call and charges
// nothing. One that ends with the deadline is served.
func TestWaitGivesUpWithoutACharge(t *testing.T) {
	eachBooking(t, func(t *testing.T, e engine.Engine) {
		store := &counted{Engine: e}
		l := must(weir.New(mails(1), weir.WithEngine(store)))
		must(l.Wait(ctx, acme))
		start := time.Now()
		short, cancel := context.WithTimeout(ctx, time.Second-time.Microsecond)
		defer cancel()
		_, err := l.Wait(short, acme)
		waited, ok := errors.AsType[*weir.WaitError](err)
		if !errors.Is(err, weir.ErrDeadline) || !ok || waited.Decision.RetryAfter != time.Second {
			t.Errorf("a deadline that is too soon: %v", err)
		}
		_, err = l.WaitN(ctx, acme, 2)
		wantError(t, "more than ever fits", err, weir.ErrNever)
		if time.Since(start) != 0 || store.calls.Load() != 3 {
			t.Errorf("giving up took %v and %d calls, want none and one each", time.Since(start), store.calls.Load()-1)
		}
		enough, cancel := context.WithTimeout(ctx, time.Second+time.Nanosecond)
		defer cancel()
		if _, err = l.Wait(enough, acme); err != nil || time.Since(start) != time.Second {
			t.Errorf("a deadline that suffices: %v after %v", err, time.Since(start))
		}
	})
}

// TestWaitGivesItsUnitsBack: a caller whose context ends makes a second call, which frees its place
// and its cost. Later appointments keep their instants.
func TestWaitGivesItsUnitsBack(t *testing.T) {
	for _, cost := range []int64{0, 7} {
		eachBooking(t, func(t *testing.T, e engine.Engine) {
			var took []time.Duration
			var starts []time.Duration // as observed
			store := &counted{Engine: weir.Observe(e, func(c context.Context, call *engine.Call, _ time.Duration) {
				if call.Op == engine.Attempt {
					starts = append(starts, call.Result.StartAfter)
				}
				if deadline, ok := c.Deadline(); ok && call.Op == engine.Refund && c.Err() == nil {
					took = append(took, time.Until(deadline))
				}
			})}
			p := mails(max(1, cost), func(l *weir.Limit) { l.Cost = cost })
			l := must(weir.New(p, weir.WithEngine(store)))
			must(l.Wait(ctx, acme))
			start := time.Now()
			states := make([]weir.LimitState, 1)
			leaving, leave := context.WithCancel(ctx)
			var all sync.WaitGroup
			all.Go(func() {
				d, err := l.Wait(leaving, acme)
				waited, ok := errors.AsType[*weir.WaitError](err)
				if !ok || !errors.Is(err, context.Canceled) || !d.Allowed || waited.Decision != d || time.Since(start) != time.Second/2 {
					t.Errorf("cost %d: %v, %v after %v; want a cancelled appointment after 500ms", cost, d, err, time.Since(start))
				}
				assert.Equal(t, err.Error(), "weir: gave up waiting for 1s: context canceled", "the error")
			})
			synctest.Wait()
			all.Go(func() {
				must(l.Wait(ctx, acme))
				assert.Equal(t, time.Since(start), 2*time.Second, "cost %d: the one behind", cost)
			})
			time.Sleep(time.Second / 2)
			leave()
			synctest.Wait()
			if store.calls.Load() != 4 || len(took) != 1 || took[0] <= 0 || took[0] > time.Second {
				t.Errorf("cost %d: %d calls, the cancel had %v; want 4 and at most 1s", cost, store.calls.Load(), took)
			}
			look := weir.Call{Limiter: l, Key: acme, Op: engine.Peek, Request: weir.Request{N: 1, States: states}}
			must(look.Do(ctx))
			units := max(1, cost)
			if states[0].Ahead != units || states[0].Used != 2*units {
				t.Errorf("cost %d: %+v; want the first grant, and the one behind ahead", cost, states[0])
			}
			all.Wait()
			assert.Equal(t, fmt.Sprint(starts), "[0s 1s 2s]", "the starts that Observe reports")
			d := must(l.Wait(ctx, acme))
			assert.Equal(t, d.At.Add(d.StartAfter).Sub(start), 3*time.Second, "cost %d: the next one", cost)
		})
	}
}

// TestWaitNamesUnitsThatItCouldNotGiveBack: the second call does not outlast a second, and its
// error is that of the wait, too.
func TestWaitNamesUnitsThatItCouldNotGiveBack(t *testing.T) {
	eachBooking(t, func(t *testing.T, e engine.Engine) {
		store := weirtest.NewFaulty(e)
		l := must(weir.New(mails(1), weir.WithEngine(store)))
		must(l.Wait(ctx, acme))
		leaving, leave := context.WithTimeout(ctx, time.Minute)
		time.AfterFunc(time.Second/2, func() {
			store.Break(weirtest.Silent())
			leave()
		})
		start := time.Now()
		_, err := l.Wait(leaving, acme)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second/2 {
			t.Errorf("%v after %v; want both errors after 1.5s", err, time.Since(start))
		}
	})
}

// TestWaitOutlastsABlockInTwoCalls: a waiting caller makes another attempt at the end of a block.
func TestWaitOutlastsABlockInTwoCalls(t *testing.T) {
	eachBooking(t, func(t *testing.T, e engine.Engine) {
		store := &counted{Engine: e}
		l := must(weir.New(mails(1), weir.WithEngine(store)))
		must(l.Block(ctx, acme, time.Minute))
		start := time.Now()
		short, cancel := context.WithTimeout(ctx, 59*time.Second)
		defer cancel()
		_, err := l.Wait(short, acme)
		wantError(t, "a block beyond the deadline", err, weir.ErrDeadline)
		d, err := l.Wait(ctx, acme)
		if err != nil || !d.Allowed || time.Since(start) != time.Minute || store.calls.Load() != 4 {
			t.Errorf("%v, %v after %v with %d calls; want 1m and 4", d, err, time.Since(start), store.calls.Load())
		}
	})
}

// TestReserveStartsLater: the life of a reservation begins at its start, and a cancel before it
// takes everything back.
func TestReserveStartsLater(t *testing.T) {
	eachBooking(t, func(t *testing.T, e engine.Engine) {
		p := mails(7, func(l *weir.Limit) { l.Cost = 7 })
		p.Limits = append(p.Limits, weir.PerMinute(60, "from").Named("minute"))
		l := must(weir.New(p, weir.WithEngine(e)))
		must(l.AllowN(ctx, acme, 50))
		start := time.Now()
		request := weir.Request{N: 5, TTL: 10 * time.Second, MaxWait: time.Second, ID: "a job"}
		r, d, err := l.Reserve(ctx, acme, request)
		if err != nil || d.StartAfter != time.Second || r.ExpiresAt().Sub(start) != 11*time.Second {
			t.Fatalf("%v, %v, lives until %v; want a start after 1s and an end after 11s", d, err, r.ExpiresAt().Sub(start))
		}
		assert.Equal(t, d.String(), "allowed in 1s", "the sentence")
		time.Sleep(400 * time.Millisecond)
		_, d, err = l.Reserve(ctx, acme, request)
		if err != nil || !d.Replayed || d.StartAfter != 600*time.Millisecond {
			t.Errorf("repeated: %v, %v; want the rest of the wait", d, err)
		}
		wantError(t, "cancel", r.Cancel(ctx), nil)
		request.ID = ""
		if r, d, err = l.Reserve(ctx, acme, request); err != nil || d.StartAfter != 600*time.Millisecond {
			t.Errorf("after the cancel: %v, %v; want its place", d, err)
		}
		time.Sleep(10*time.Second + 599*time.Millisecond)
		wantError(t, "commit at the end of its life", r.Commit(ctx, 1), nil)
		if r, d, err = l.Reserve(ctx, acme, weir.Request{N: 20, MaxWait: time.Second}); r != nil || d.Allowed || err != nil {
			t.Errorf("beyond MaxWait: %v, %v", d, err)
		}
	})
}

// TestBadWaitsAreErrors: a sentence each, and nothing is charged.
func TestBadWaitsAreErrors(t *testing.T) {
	e := spec.New()
	counts := mails(1)
	counts.Mode = weir.CountDenied
	held := weir.Policy{Name: "jobs", Limits: []weir.Limit{weir.AtOnce(1, time.Minute)}}
	for want, c := range map[string]struct {
		policy weir.Policy
		op     engine.Op
		wait   time.Duration
	}{
		"weir: bad time to wait: MaxWait is -1ns; use 0 to 9600h0m0s, or Never":                                                          {mails(1), engine.Attempt, -1},
		"weir: bad time to wait: MaxWait is 9600h0m0.000000001s; use 0 to 9600h0m0s, or Never":                                           {mails(1), engine.Attempt, weir.MaxWindow + 1},
		"weir: bad time to wait: MaxWait is for attempts; leave it out of other operations":                                              {mails(1), engine.Record, 1},
		`weir: bad time to wait: policy "mails" counts denied attempts, so none of them can wait; leave MaxWait out`:                     {counts, engine.Attempt, 1},
		`weir: bad time to wait: policy "jobs" has a concurrency limit, and nobody knows when its units are released; leave MaxWait out`: {held, engine.Attempt, 1},
	} {
		l := must(weir.New(c.policy, weir.WithEngine(e)))
		key := weir.K("acme")
		if len(l.Compiled().Dimensions) == 0 {
			key = weir.K()
		}
		call := weir.Call{Limiter: l, Key: key, Op: c.op, Request: weir.Request{N: 1, MaxWait: c.wait}}
		_, err := call.Do(ctx)
		if !errors.Is(err, weir.ErrInput) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if c.op == engine.Attempt {
			_, _, err = l.Reserve(ctx, key, weir.Request{N: 1, MaxWait: c.wait})
			wantError(t, "a reservation", err, weir.ErrInput)
		}
	}
	l := must(weir.New(mails(1), weir.WithEngine(e)))
	err := weir.DecideTogether(ctx, []weir.Call{{Limiter: l, Key: acme, Request: weir.Request{N: 1, MaxWait: 1e9}}})
	if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "leave MaxWait out") {
		t.Errorf("together: %v", err)
	}
	if d := must(l.Peek(ctx, acme, 1)); d.Remaining != 1 {
		t.Errorf("bad input was charged: %v", d)
	}
}

// TestWaitersDoNotPoll: each of many waiters makes one call, and has no goroutine besides its own.
func TestWaitersDoNotPoll(t *testing.T) {
	eachBooking(t, func(t *testing.T, e engine.Engine) {
		waiters, rate := 10_000, int64(100)
		if _, slow := e.(*spec.Engine); slow {
			waiters, rate = 40, 1
		}
		store := &counted{Engine: e}
		l := must(weir.New(mails(rate), weir.WithEngine(store)))
		before := runtime.NumGoroutine()
		start := time.Now()
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() { must(l.Wait(ctx, acme)) })
		}
		synctest.Wait()
		booked := waiters - int(rate) // the others have returned
		if calls, more := store.calls.Load(), runtime.NumGoroutine()-before; calls != int64(waiters) || more > booked {
			t.Errorf("%d calls and %d goroutines of %d waiters, want one each", calls, more, booked)
		}
		all.Wait()
		if calls := store.calls.Load(); calls != int64(waiters) {
			t.Errorf("%d calls of %d waiters, want one each", calls, waiters)
		}
		assert.Equal(t, time.Since(start), time.Duration(waiters/int(rate)-1)*time.Second, "the last one was served after")
	})
}

// TestWaitersFillEveryWindow: under three times as much demand as the limit permits, waiting
// callers use every window in full. Callers that poll with a backoff do not, in the same run.
func TestWaitersFillEveryWindow(t *testing.T) {
	eachBooking(t, func(t *testing.T, e engine.Engine) {
		rate, seconds := 1000, 10
		if _, slow := e.(*spec.Engine); slow {
			rate, seconds = 20, 4
		}
		start := time.Now()
		end := start.Add(time.Duration(seconds) * time.Second)
		run, stop := context.WithDeadline(ctx, end)
		defer stop()
		// demand runs callers that use a unit a third of a second after the last one. It returns the
		// least and the most units in a window, as parts of the limit, and the calls for each unit.
		type use struct{ least, most, calls float64 }
		demand := func(next func(l *weir.Limiter, random *rand.Rand) (weir.Decision, error)) use {
			store := &counted{Engine: e}
			l := must(weir.New(mails(int64(rate)), weir.WithEngine(store)))
			var mu sync.Mutex
			var used []time.Time
			var all sync.WaitGroup
			for i := range rate {
				all.Go(func() {
					random := rand.New(rand.NewPCG(49, uint64(i)))
					time.Sleep(time.Duration(random.Int64N(int64(time.Second / 3))))
					for {
						d, err := next(l, random)
						if err != nil {
							return
						}
						mu.Lock()
						used = append(used, d.At.Add(d.StartAfter))
						mu.Unlock()
						time.Sleep(time.Second / 3)
					}
				})
			}
			all.Wait()
			slices.SortFunc(used, time.Time.Compare)
			fullness := windows(used, start.Add(time.Second), end.Add(-time.Second), time.Second)
			return use{
				least: float64(slices.Min(fullness)) / float64(rate),
				most:  float64(slices.Max(fullness)) / float64(rate),
				calls: float64(store.calls.Load()) / float64(len(used)),
			}
		}
		var polling, waiting use
		var all sync.WaitGroup
		all.Go(func() {
			polling = demand(func(l *weir.Limiter, random *rand.Rand) (weir.Decision, error) {
				for backoff := 10 * time.Millisecond; ; backoff = min(2*backoff, time.Second) {
					d, err := l.Allow(run, weir.K("polls"))
					if err != nil || d.Allowed || run.Err() != nil {
						return d, cmp.Or(err, run.Err())
					}
					time.Sleep(backoff/2 + time.Duration(random.Int64N(int64(backoff))))
				}
			})
		})
		waiting = demand(func(l *weir.Limiter, _ *rand.Rand) (weir.Decision, error) {
			return l.Wait(run, weir.K("waits"))
		})
		all.Wait()
		t.Logf("windows of waiting callers: %.4f to %.4f of Max, %.2f calls for a unit", waiting.least, waiting.most, waiting.calls)
		t.Logf("windows of polling callers: %.4f to %.4f of Max, %.2f calls for a unit", polling.least, polling.most, polling.calls)
		if waiting.least < 0.999 || waiting.most > 1 || polling.most > 1 {
			t.Error("want at least 0.999 of Max in each window of waiting callers, and nowhere more than Max")
		}
		if polling.least >= waiting.least || polling.calls <= waiting.calls {
			t.Error("polling is no worse, so the run proves nothing")
		}
	})
}

// windows returns the number of sorted instants in [s, s + window) for each s at which it changes,
// from an instant on until another one.
func windows(instants []time.Time, from, until time.Time, window time.Duration) (counts []int) {
	in := func(s time.Time) int {
		first, _ := slices.BinarySearchFunc(instants, s, time.Time.Compare)
		last, _ := slices.BinarySearchFunc(instants, s.Add(window), time.Time.Compare)
		return last - first
	}
	for _, at := range instants {
		for _, s := range []time.Time{at, at.Add(1), at.Add(-window), at.Add(1 - window)} {
			if !s.Before(from) && !s.Add(window).After(until) {
				counts = append(counts, in(s))
			}
		}
	}
	return counts
}

// TestWaitersHammer: with 64 callers of one key, At + StartAfter never decreases in the order of
// At, and no window holds more than Max by the instants of use. With cancels the windows hold.
func TestWaitersHammer(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		eachBooking(t, func(t *testing.T, e engine.Engine) {
			waiters, rounds := 64, 100
			if _, slow := e.(*spec.Engine); slow {
				waiters, rounds = 32, 1
			}
			const most = 10
			p := mails(most)
			p.Limits = append(p.Limits, weir.Bucket(300, time.Minute, 20, "from").Named("bucket"),
				weir.Per(500, 10*time.Minute).Named("all"))
			p.Dimensions = []string{"from"}
			l := must(weir.New(p, weir.WithEngine(e)))
			var mu sync.Mutex
			var served []weir.Decision
			var cancelled int
			var all sync.WaitGroup
			for i := range waiters {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(i), 49))
					for range rounds {
						time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
						own, leave := context.WithCancel(ctx)
						if cancels && random.IntN(2) == 0 {
							timer := time.AfterFunc(time.Duration(random.Int64N(int64(10*time.Second))), leave)
							defer timer.Stop()
						}
						d, err := l.WaitN(own, acme, 1+random.Int64N(2))
						leave()
						mu.Lock()
						switch {
						case err == nil:
							served = append(served, d)
						case cancels && errors.Is(err, context.Canceled):
							cancelled++
						default:
							t.Error(err)
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if cancels == (cancelled == 0) {
				t.Errorf("%d were cancelled", cancelled)
			}
			slices.SortStableFunc(served, func(a, b weir.Decision) int {
				return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.StartAfter, b.StartAfter))
			})
			var used []time.Time
			for i, d := range served {
				for range d.Granted {
					used = append(used, d.At.Add(d.StartAfter))
				}
				if i > 0 && !cancels && d.At.Add(d.StartAfter).Before(served[i-1].At.Add(served[i-1].StartAfter)) {
					t.Fatalf("%v at %v begins before %v at %v", d, d.At, served[i-1], served[i-1].At)
				}
			}
			slices.SortFunc(used, time.Time.Compare)
			if got := slices.Max(windows(used, time.Time{}, used[len(used)-1].Add(time.Hour), time.Second)); got > most {
				t.Errorf("a window holds %d, want at most %d", got, most)
			}
			if len(served)+cancelled != waiters*rounds {
				t.Errorf("%d were served and %d cancelled", len(served), cancelled)
			}
		})
	}
}
