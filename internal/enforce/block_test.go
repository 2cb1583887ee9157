package enforce

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// attempt attempts units for the key u now.
func attempt(t testing.TB, r *Rule, n int64) Outcome {
	t.Helper()
	return mustDecide(t, r, &Request{Target: Target{Key: weir.K("u")}, N: n})
}

// ruleOf is a policy p of those limits.
func ruleOf(t *testing.T, e engine.Engine, limits string) *Rule {
	t.Helper()
	return rulesOf(t, "version: 1\npolicies:\n  p: {limits: "+limits+"}\n", e)[0]
}

// counter is an engine that counts its calls.
type counter struct {
	engine.Engine
	calls int
}

func (c *counter) Do(ctx context.Context, calls []engine.Call) {
	c.calls += len(calls)
	c.Engine.Do(ctx, calls)
}

// took compares the calls since the last comparison.
func (c *counter) took(t *testing.T, want int, format string, args ...any) {
	t.Helper()
	if c.calls != want {
		t.Errorf("%s took %d calls of the engine, want %d", fmt.Sprintf(format, args...), c.calls, want)
	}
	c.calls = 0
}

// TestEachDecisionIsOneCall: whatever becomes of a request, it is one call of the engine: a grant,
// a denial that begins a block, one during a block, a reset, a block, and each step of a
// reservation. Requests together are one call, too.
func TestEachDecisionIsOneCall(t *testing.T) {
	e := &counter{Engine: weir.NewMemory()}
	rules := rulesOf(t, traceFile(t, "blocks.yaml"), e)
	for _, name := range []string{"guard", "counted", "shadow", "share", "open"} {
		r := named(rules, name)
		one := func(a Request) Outcome {
			t.Helper()
			a.Key = weir.K("u")
			o := mustDecide(t, r, &a)
			e.took(t, 1, "%s: %d of %d units", name, a.Op, a.N)
			return o
		}
		one(Request{N: 2})
		if o := one(Request{N: 1}); o.Applied.Blocked.IsZero() {
			t.Errorf("%s: no block has begun: %+v", name, o.Decision)
		}
		one(Request{N: 1})
		one(Request{N: 1, ID: "op"})
		one(Request{Op: record, N: 1})
		one(Request{Op: engine.Refund, N: 1, From: time.Now()})
		if o := one(Request{Op: engine.Reset}); fmt.Sprint(o.Limits) != "[limit]" {
			t.Errorf("%s: reset %v", name, o.Limits)
		}
		if o := one(Request{N: 1, Reserve: true, ID: "use"}); o.Reservation == nil || o.Reserved.Units != 1 {
			t.Errorf("%s: no reservation: %+v", name, o)
		}
		one(Request{Op: engine.Extend, N: 1, ID: "use", Before: 1})
		if o := one(Request{Op: engine.Settle, N: 1, ID: "use"}); o.Reserved.Actual != 1 || o.Granted != 1 {
			t.Errorf("%s: settled %+v, %d taken back", name, o.Reserved, o.Granted)
		}
		one(Request{Op: engine.Block, For: time.Hour})
		one(Request{Op: engine.Block})
	}
	login := named(rules, "login")
	mustDecide(t, login, &Request{Target: Target{Key: weir.K("a", "i")}, N: 3})
	e.took(t, 1, "a check of a policy that counts reports")
	items := []Item{itemOf(rules, "guard", "a", 3), itemOf(rules, "plans", "a", 1)}
	must.Do(t, DecideTogether(context.Background(), items))
	e.took(t, 1, "two attempts together")
	if items[0].Outcome.Applied.Blocked.IsZero() || !items[1].Outcome.Applied.Blocked.IsZero() {
		t.Errorf("together: %+v, %+v; want a block of the first", items[0].Outcome.Applied, items[1].Outcome.Applied)
	}
}

// TestBlocksOfOperators: a key is blocked for a time, in the limits that a reset would forget, or
// in those that are named. A shorter block does not shorten a running one, and 0 ends it.
func TestBlocksOfOperators(t *testing.T) {
	r := ruleIn(t, "blocks.yaml", "both", weir.NewMemory())
	key := pairsOf("tenant=t user=u")
	block := func(d time.Duration, limits ...string) Outcome {
		t.Helper()
		a := Request{Op: engine.Block, For: d, Limits: limits, At: start}
		var err error
		a.Target, err = r.ResetTarget(key, limits)
		if err != nil {
			t.Fatal(err)
		}
		return mustDecide(t, r, &a)
	}
	blocked := func(user string, want time.Duration) {
		t.Helper()
		target, err := r.Target(pairsOf("tenant=t user=" + user))
		if err != nil {
			t.Fatal(err)
		}
		a := Request{Target: target, N: 1, Op: peek, At: start}
		if o := mustDecide(t, r, &a); o.Blocked != want || o.Allowed != (want == 0) || o.RetryAfter != want {
			t.Errorf("%s: %+v, want it blocked for %v", user, o.Decision, want)
		}
	}
	if o := block(time.Hour); fmt.Sprint(o.Limits) != "[user]" || o.Blocked != time.Hour || !o.At.Equal(start) {
		t.Errorf("blocked %v for %v at %v", o.Limits, o.Blocked, o.At)
	}
	blocked("u", time.Hour)
	blocked("v", 0)
	if o := block(time.Minute); o.Blocked != time.Hour {
		t.Errorf("a shorter block: %v", o.Blocked)
	}
	if o := block(2*time.Hour, "tenant"); fmt.Sprint(o.Limits) != "[tenant]" {
		t.Errorf("blocked %v", o.Limits)
	}
	blocked("v", 2*time.Hour)
	block(0, "tenant")
	blocked("v", 0)
	blocked("u", time.Hour)
	for _, d := range []time.Duration{-1, weir.MaxWindow + 1} {
		target, err := r.ResetTarget(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := Request{Op: engine.Block, For: d, Target: target}
		if _, err := r.Decide(context.Background(), &a); err == nil {
			t.Errorf("a block of %v was accepted", d)
		}
	}
}

// TestBlocksDenyNothingInAnOutage: during an outage the mode of the policy decides, and
// blocks deny nothing.
func TestBlocksDenyNothingInAnOutage(t *testing.T) {
	decide := func(e engine.Engine, name string) (Outcome, error) {
		r := ruleIn(t, "blocks.yaml", name, e)
		return r.Decide(context.Background(), &Request{Target: Target{Key: weir.K("u")}, N: 1, At: at("2026-01-01")})
	}
	f := fallback.New(down, fallback.Deny, fallback.Instances(3))
	for name, want := range map[string]int64{"share": 0, "open": 1} {
		o, err := decide(f, name)
		if err != nil || o.Decision.Granted != want || !o.Decision.Degraded || !o.Applied.Blocked.IsZero() {
			t.Errorf("%s: %+v, %v; want %d granted and no block", name, o, err, want)
		}
	}
	two := fallback.New(down, fallback.Share, fallback.Instances(2))
	if o, err := decide(two, "share"); err != nil || !o.Decision.Allowed {
		t.Errorf("one of a share of one: %+v, %v", o, err)
	}
	if o, err := decide(f, "guard"); err == nil || o.Decision.Allowed {
		t.Errorf("deny: %+v, %v", o, err)
	}
}

// TestShareDenialBeginsNoBlock: a denial by a share begins no block in the store.
func TestShareDenialBeginsNoBlock(t *testing.T) {
	faulty := weirtest.NewFaulty(weir.NewMemory())
	f := fallback.New(faulty, fallback.Share, fallback.Instances(2), fallback.FailureThreshold(0))
	r := ruleIn(t, "blocks.yaml", "share", f)
	ask := Request{Target: Target{Key: weir.K("u")}, N: 2, At: at("2026-01-01")}
	faulty.Break(weirtest.Down())
	if o, err := r.Decide(context.Background(), &ask); err != nil || o.Decision.Allowed || !o.Decision.Degraded || !o.Applied.Blocked.IsZero() {
		t.Errorf("2 of a share of 1: %+v, %v", o, err)
	}
	faulty.Restore()
	if o, err := r.Decide(context.Background(), &ask); err != nil || o.Decision.Granted != 2 {
		t.Errorf("the store is back: %+v, %v", o, err)
	}
}

// TestReplayWhileBlocked: an operation that a share has granted gets its answer again,
// even if the store is back and the key is blocked there.
func TestReplayWhileBlocked(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	r := ruleIn(t, "blocks.yaml", "share", fallback.New(store, fallback.Share, fallback.FailureThreshold(0)))
	job := func() Outcome {
		t.Helper()
		return mustDecide(t, r, &Request{Target: Target{Key: weir.K("u")}, N: 1, ID: "job"})
	}
	store.Break(weirtest.Down())
	if o := job(); !o.Decision.Allowed || !o.Decision.Degraded {
		t.Fatalf("by the share: %+v", o)
	}
	store.Restore()
	for range 3 {
		attempt(t, r, 2)
	}
	if o := attempt(t, r, 1); o.Applied.Blocked.IsZero() {
		t.Fatalf("no block: %+v", o)
	}
	if o := job(); !o.Decision.Replayed || !o.Decision.Allowed {
		t.Errorf("the same operation again: %+v", o.Decision)
	}
}

// mustDecide decides an attempt of a rule.
func mustDecide(t testing.TB, r *Rule, a *Request) Outcome {
	t.Helper()
	o, err := r.Decide(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
