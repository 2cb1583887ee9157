package memory

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

var ctx = context.Background()

// K is short for engine.K.
func K(values ...string) engine.Key { return engine.K(values...) }

// policy is the rules of a test as package weir has them. Package weir cannot be imported
// here, because it imports this package.
type policy struct {
	Name   string
	Mode   engine.Mode
	Limits []limit
}

type limit struct {
	Name                string
	Kind                engine.Kind
	Max, Cost, Burst    int64
	Window, MinInterval time.Duration
	Block               time.Duration
	By                  []string
	Cells               int
	Period              engine.Period // in UTC
}

// compile returns the rules of the policy without a check.
func (p policy) compile() *engine.Compiled {
	var dimensions []string
	var limits []engine.Limit
	for _, l := range p.Limits {
		c := engine.Limit{Name: l.Name, Kind: l.Kind, Max: l.Max, Cost: l.Cost, Capacity: l.Burst,
			Window: l.Window.Microseconds(), MinInterval: l.MinInterval.Microseconds(), Block: l.Block.Microseconds()}
		if l.Period != engine.NoPeriod {
			c.Window, c.Period = l.Period.Length().Microseconds(), &engine.Calendar{Period: l.Period, Anchor: 1, Zone: time.UTC}
		}
		if l.Cells > 0 {
			c.Cell = (c.Window-1)/int64(l.Cells) + 1
		}
		for _, name := range l.By {
			if !slices.Contains(dimensions, name) {
				dimensions = append(dimensions, name)
			}
			c.By = append(c.By, slices.Index(dimensions, name))
		}
		limits = append(limits, c)
	}
	return engine.Compile(p.Name, p.Mode, dimensions, limits)
}

// perUser is a policy of n units a window for each user.
func perUser(n int64, window time.Duration) policy {
	return policy{Name: "p", Limits: []limit{{Name: "user", Max: n, Window: window, By: []string{"user"}}}}
}

// limits is a policy of n limits that all count by user.
func limits(n int) policy {
	p := policy{Name: "p"}
	for i := range n {
		p.Limits = append(p.Limits, limit{Name: fmt.Sprint("l", i), Max: 100, Window: time.Second, By: []string{"user"}})
	}
	return p
}

// limiter makes calls of a policy, as a weir.Limiter does.
type limiter struct {
	memory *Memory
	rules  *engine.Compiled
	at     time.Time // the instant of the calls, if it is set
}

// on returns a limiter of a policy.
func (m *Memory) on(p policy) *limiter {
	rules := p.compile()
	return &limiter{memory: m, rules: rules}
}

// newLimiter returns a limiter of a policy on an empty engine.
func newLimiter(p policy) *limiter { return New(Options{}).on(p) }

// At returns a limiter that decides at an instant.
func (l *limiter) At(at time.Time) *limiter {
	return &limiter{memory: l.memory, rules: l.rules, at: at}
}

// do decides a call.
func (l *limiter) do(k engine.Key, c engine.Call) (engine.Result, error) {
	c.Rules, c.Key = l.rules, k
	if !l.at.IsZero() {
		c.At, c.Given = l.at.UnixMicro(), true
	}
	if c.N > engine.MaxUnits {
		return engine.Result{}, engine.Input("units", "%d", c.N)
	}
	calls := []engine.Call{c}
	l.memory.Do(ctx, calls)
	return calls[0].Result, calls[0].Err
}

// granted returns a result, which must be a grant:
//
//	granted(t, mustAllow(t, l, K("ann")))
func granted(t testing.TB, r engine.Result) engine.Result {
	t.Helper()
	if !r.Allowed {
		t.Fatalf("got %+v, want a grant", r)
	}
	return r
}

func (l *limiter) Allow(k engine.Key) (engine.Result, error) { return l.AllowN(k, 1) }

func (l *limiter) AllowN(k engine.Key, n int64) (engine.Result, error) {
	b := l.memory.Rules(l.rules)
	if l.at.IsZero() && Takes(l.rules, &k, n) {
		var r engine.Result
		if b.AllowFast(&k, n, &r) {
			return r, nil
		}
		err := b.Allow(&k, n, &r)
		return r, err
	}
	return l.do(k, engine.Call{N: n})
}

func (l *limiter) AllowOnce(k engine.Key, n int64, id string) (engine.Result, error) {
	return l.do(k, engine.Call{N: n, ID: id})
}

func (l *limiter) Peek(k engine.Key, n int64) (engine.Result, error) {
	return l.do(k, engine.Call{Op: engine.Peek, N: n})
}

func (l *limiter) Record(k engine.Key, n int64) (engine.Result, error) {
	return l.do(k, engine.Call{Op: engine.Record, N: n})
}

func (l *limiter) Refund(k engine.Key, from time.Time, n int64) (int64, error) {
	r, err := l.do(k, engine.Call{Op: engine.Refund, N: n, From: from.UnixMicro()})
	return r.Granted, err
}

func (l *limiter) Count(k engine.Key, i int, span time.Duration) (int64, error) {
	r, err := l.do(k, engine.Call{Op: engine.Count, Limit: i, From: span.Microseconds()})
	return r.Granted, err
}

func (l *limiter) Reset(k engine.Key) error {
	_, err := l.do(k, engine.Call{Op: engine.Reset})
	return err
}

// mustDo makes a call, which must not fail.
func mustDo(t testing.TB, l *limiter, k engine.Key, c engine.Call) engine.Result {
	t.Helper()
	r, err := l.do(k, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustAllow decides an attempt of one unit.
func mustAllow(t testing.TB, l *limiter, k engine.Key) engine.Result {
	t.Helper()
	r, err := l.Allow(k)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustAllowN decides an attempt of n units.
func mustAllowN(t testing.TB, l *limiter, k engine.Key, n int64) engine.Result {
	t.Helper()
	r, err := l.AllowN(k, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustAllowOnce decides an attempt with an idempotency key.
func mustAllowOnce(t testing.TB, l *limiter, k engine.Key, n int64, id string) engine.Result {
	t.Helper()
	r, err := l.AllowOnce(k, n, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustPeek decides an attempt and charges nothing.
func mustPeek(t testing.TB, l *limiter, k engine.Key, n int64) engine.Result {
	t.Helper()
	r, err := l.Peek(k, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustWait decides an attempt that may wait.
func mustWait(t testing.TB, l *limiter, k engine.Key, n int64) engine.Result {
	t.Helper()
	r, err := l.wait(k, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
