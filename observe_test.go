package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// A report is a copy of what an observer got.
type report struct {
	policy string
	op     engine.Op
	n      int64
	result engine.Result
	err    error
	took   time.Duration
}

// short returns a report in few words: the policy, the operation, its units and its outcome.
func (r report) short() string {
	outcome := "denied"
	switch {
	case r.err != nil:
		outcome = "failed"
	case r.op > engine.Record && r.op < engine.Extend:
		outcome = fmt.Sprint("units ", r.result.Granted)
	case r.op == engine.Block:
		outcome = fmt.Sprint("blocked ", r.result.Blocked)
	case r.result.Allowed:
		outcome = "allowed"
	}
	return fmt.Sprint(r.policy, " ", r.op, " ", r.n, " ", outcome)
}

// reports collects the calls that an engine reports to add. It serves one goroutine.
type reports []report

func (all *reports) add(_ context.Context, c *engine.Call, took time.Duration) {
	*all = append(*all, report{c.Rules.Name, c.Op, c.N, c.Result, c.Err, took})
}

// take returns the reports since the last take, in few words.
func (all *reports) take() (words []string) {
	for _, r := range *all {
		words = append(words, r.short())
	}
	*all = nil
	return words
}

// perMinute is a policy with that name of n units a minute for each user.
func perMinute(name string, n int64) weir.Policy {
	limit := weir.Limit{Name: "minute", Max: n, Window: time.Minute, By: []string{"user"}}
	return weir.Policy{Name: name, Limits: []weir.Limit{limit}}
}

// on returns a limiter of perMinute on an engine.
func on(e engine.Engine, name string, n int64) *weir.Limiter {
	return must(weir.New(perMinute(name, n), weir.WithEngine(e)))
}

// TestObserveConformance: an observer changes no answer. Each call is reported once, with a
// result or an error.
func TestObserveConformance(t *testing.T) {
	var reported atomic.Int64
	observe := func(ctx context.Context, c *engine.Call, took time.Duration) {
		reported.Add(1)
		if ctx == nil || c.Rules == nil || took < 0 || c.Err != nil && c.Result != (engine.Result{}) {
			t.Errorf("observed %+v after %v", c, took)
		}
	}
	newEngine := func(*testing.T) engine.Engine { return weir.Observe(weir.NewMemory(), observe) }
	weirtest.Run(t, newEngine, weirtest.Attempts(2000), weirtest.Hammers(2))
	if reported.Load() < 2000 {
		t.Errorf("%d calls were reported", reported.Load())
	}
}

// TestObserveSeesEveryVerb: a limiter on an observed memory decides as one on the memory itself,
// and every call is reported with the decision that the caller got.
func TestObserveSeesEveryVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // both limiters have the same instants
		var seen reports
		plain := must(weir.New(perMinute("p", 5)))
		watched := on(weir.Observe(weir.NewMemory(), seen.add), "p", 5)
		key := weir.K("ann")
		first := time.Now() // the instant of the first grant
		for _, verb := range []struct {
			name string
			call func(*weir.Limiter) any
			want string
		}{
			{"Allow", func(l *weir.Limiter) any { return must(l.Allow(ctx, key)) }, "p 0 1 allowed"},
			{"AllowN", func(l *weir.Limiter) any { return must(l.AllowN(ctx, key, 5)) }, "p 0 5 denied"},
			{"AllowOnce", func(l *weir.Limiter) any { return must(l.AllowOnce(ctx, key, 1, "id")) }, "p 0 1 allowed"},
			{"Peek", func(l *weir.Limiter) any { return must(l.Peek(ctx, key, 5)) }, "p 1 5 denied"},
			{"Record", func(l *weir.Limiter) any { return must(l.Record(ctx, key, 2)) }, "p 2 2 allowed"},
			{"Refund", func(l *weir.Limiter) any { return must(l.Refund(ctx, key, first, 1)) }, "p 3 1 units 1"},
			{"Count", func(l *weir.Limiter) any { return must(l.Count(ctx, key, "minute", time.Minute)) }, "p 4 0 units 3"},
			{"Wait", func(l *weir.Limiter) any { return must(l.Wait(ctx, key)) }, "p 0 1 allowed"},
			{"Reset", func(l *weir.Limiter) any { return len(must(l.Reset(ctx, key))) }, "p 5 0 units 0"},
			{"Reserve", func(l *weir.Limiter) any {
				_, d, err := l.Reserve(ctx, key, weir.Request{N: 2, ID: "job"})
				return must(d, err)
			}, "p 0 2 allowed"},
			{"Add", func(l *weir.Limiter) any { return must(must(l.Reservation(key, "job")).Add(ctx, 1)) }, "p 7 1 allowed"},
			{"Extend", func(l *weir.Limiter) any { return must(l.Reservation(key, "job")).Extend(ctx) }, "p 7 0 allowed"},
			{"Commit", func(l *weir.Limiter) any { return must(l.Reservation(key, "job")).Commit(ctx, 2) }, "p 6 2 units 1"},
			{"Done", func(l *weir.Limiter) any { return must(l.Reservation(key, "job")).Done(ctx) != nil }, "p 6 -1 failed"},
			{"Block", func(l *weir.Limiter) any { return must(l.Block(ctx, key, time.Hour)) }, "p 8 0 blocked 1h0m0s"},
		} {
			want, got := verb.call(plain), verb.call(watched)
			assert.Equal(t, got, want, "%s on an observed memory", verb.name)
			if d, ok := got.(weir.Decision); ok && len(seen) == 1 {
				of := seen[0].result
				watched.Compiled().Explain(&of)
				assert.Equal(t, weir.Decision(of), d, "%s: the reported result", verb.name)
			}
			assert.Equal(t, fmt.Sprint(seen.take()), fmt.Sprint([]string{verb.want}), "reports of %s", verb.name)
		}
	})
}

// TestObserveReportsABatch: the calls of a batch have one duration. Bad input is neither decided
// nor reported, however many calls have it.
func TestObserveReportsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen reports
		store := weirtest.NewFaulty(weir.NewMemory())
		store.Break(weirtest.Slow(3 * time.Millisecond))
		limiter := on(weir.Observe(store, seen.add), "p", 2)
		good := weir.Call{Limiter: limiter, Key: weir.K("ann"), Request: weir.Request{N: 1}}
		bad := weir.Call{Limiter: limiter, Key: weir.K("ann"), Request: weir.Request{N: -1}}
		many := slices.Repeat([]weir.Call{bad}, 20)
		weir.DecideAll(ctx, slices.Concat([]weir.Call{bad, good}, many, []weir.Call{good, bad, good, bad}))
		for _, r := range seen {
			assert.Equal(t, r.took, 3*time.Millisecond, "duration of a call of a batch")
		}
		want := "[p 0 1 allowed p 0 1 allowed p 0 1 denied]"
		assert.Equal(t, fmt.Sprint(seen.take()), want, "reports of a batch")

		limiter.Allow(ctx, weir.K("ann", "bea"))
		assert.Equal(t, len(seen), 0, "reports of a call with bad input")
	})
}

// TestObserveReportsErrors: a call that the store cannot decide is reported with its error.
func TestObserveReportsErrors(t *testing.T) {
	var seen reports
	store := weirtest.NewFaulty(weir.NewMemory())
	store.Break(weirtest.Lost())
	limiter := on(weir.Observe(store, seen.add), "p", 2)
	_, err := limiter.Allow(ctx, weir.K("ann"))
	if len(seen) != 1 || !errors.Is(seen[0].err, weir.ErrOutcomeUnknown) || seen[0].err != err {
		t.Errorf("reported %+v; the caller got %v", seen, err)
	}
}

// TestObserveAndTogether: calls together are one report under the names of all policies, and
// need limiters on one result of Observe.
func TestObserveAndTogether(t *testing.T) {
	var seen reports
	memory := weir.NewMemory()
	store := weir.Observe(memory, seen.add)
	call := func(name string, e engine.Engine) weir.Call {
		return weir.Call{Limiter: on(e, name, 1), Key: weir.K("ann"), Request: weir.Request{N: 1}}
	}
	calls := []weir.Call{call("from", store), call("to", store)}
	if err := weir.DecideTogether(ctx, calls); err != nil || !calls[1].Decision.Allowed {
		t.Errorf("%v, %+v", err, calls)
	}
	assert.Equal(t, fmt.Sprint(seen.take()), "[from+to 0 1 allowed]", "reports of calls together")

	again := weir.Observe(memory, seen.add)
	err := weir.DecideTogether(ctx, []weir.Call{call("from", store), call("to", again)})
	assert.Error(t, err, weir.ErrInput, "another engine")

	weir.DecideAll(ctx, []weir.Call{call("from", store), call("to", again), call("from", memory)})
	want := "[from 0 1 denied to 0 1 denied]"
	assert.Equal(t, fmt.Sprint(seen.take()), want, "reports of a batch on three engines")
}

// TestObserveOfNothing: a nil engine stays one, for the errors of its users, and a nil function
// reports nothing.
func TestObserveOfNothing(t *testing.T) {
	var seen reports
	assert.Equal(t, weir.Observe(nil, seen.add), nil, "Observe of a nil engine")
	memory := weir.NewMemory()
	assert.Equal(t, weir.Observe(memory, nil), engine.Engine(memory), "Observe without a function")
}

// TestObserverThatPanics: a panic of the engine or of the observer reaches the caller, and the
// limiter decides on.
func TestObserverThatPanics(t *testing.T) {
	var seen reports
	broken := weirtest.NewFaulty(weir.NewMemory())
	broken.Break(func(context.Context, func()) error { panic("the engine") })
	observer := func(context.Context, *engine.Call, time.Duration) { panic("the observer") }
	for want, e := range map[string]engine.Engine{
		"the engine":   weir.Observe(broken, seen.add),
		"the observer": weir.Observe(weir.NewMemory(), observer),
	} {
		limiter := on(e, "p", 1)
		for range 2 {
			got := assert.Recovered(func() { limiter.Allow(ctx, weir.K("ann")) })
			assert.Equal(t, got, any(want), "the panic of %s", want)
		}
	}
	assert.Equal(t, len(seen), 0, "reports of an engine that panics")
}
