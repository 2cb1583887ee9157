package enforce

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
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
	return must.Get(r.Decide(context.Background(), &Request{Target: Target{Key: weir.K("u")}, N: n}))(t)
}

// ruleOf is a policy p of those limits.
func ruleOf(t *testing.T, e engine.Engine, limits string) *Rule {
	t.Helper()
	return rulesOf(t, "version: 1\npolicies:\n  p: {limits: "+limits+"}\n", e)[0]
}

// slow is an engine that delays the decisions of one policy, and not those of its blocks.
type slow struct {
	engine.Engine
	by     time.Duration
	policy string // "" = every policy, and blocks
}

func (s slow) Do(ctx context.Context, calls []engine.Call) {
	if s.policy == "" || calls[0].Rules.Name == s.policy {
		time.Sleep(s.by)
	}
	s.Engine.Do(ctx, calls)
}

// TestBlockThatEndsMeanwhileDeniesNothing: a block that has ended before the limits are
// decided denies nothing.
func TestBlockThatEndsMeanwhileDeniesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ruleIn(t, "blocks.yaml", "guard", slow{weir.NewMemory(), time.Second, "guard"})
		decide := func(n int64) Outcome { return attempt(t, r, n) }
		decide(2)
		if o := decide(1); o.Decision.RetryAfter != 10*time.Minute {
			t.Errorf("%+v, want a block", o)
		}
		time.Sleep(10*time.Minute - 1500*time.Millisecond)
		if o := decide(1); o.Decision.Allowed || o.Decision.RetryAfter != 500*time.Millisecond {
			t.Errorf("%+v, want the rest of the block at the instant of the limits", o)
		}
		if o := decide(1); !o.Decision.Allowed || !o.Applied.Blocked.IsZero() {
			t.Errorf("%+v, want it granted", o)
		}
	})
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
	f := fallback.New(limits{faulty}, fallback.Share, fallback.Instances(2), fallback.FailureThreshold(0))
	r := ruleIn(t, "blocks.yaml", "share", f)
	ask := Request{Target: Target{Key: weir.K("u")}, N: 2, At: at("2026-01-01")}
	faulty.Break(weirtest.Down())
	if o, err := r.Decide(context.Background(), &ask); err != nil || o.Decision.Allowed || !o.Decision.Degraded || !o.Applied.Blocked.IsZero() {
		t.Errorf("2 of a share of 1, while the store decides only blocks: %+v, %v", o, err)
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
		return must.Get(r.Decide(context.Background(), &Request{Target: Target{Key: weir.K("u")}, N: 1, ID: "job"}))(t)
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

// limits is a store that fails for limits and works for their blocks.
type limits struct{ *weirtest.Faulty }

var blocksOf = weir.NewMemory()

func (e limits) Do(ctx context.Context, calls []engine.Call) {
	if strings.HasSuffix(calls[0].Rules.Name, ".block") {
		blocksOf.Do(ctx, calls)
		return
	}
	e.Faulty.Do(ctx, calls)
}

// TestBadInputNamesThePolicy: errors name the policy, not its blocks (R14).
func TestBadInputNamesThePolicy(t *testing.T) {
	r := ruleIn(t, "blocks.yaml", "both", weir.NewMemory())
	for _, a := range []Request{
		{Target: Target{weir.K("t"), 0}, N: 1},
		{Target: Target{weir.K("t", strings.Repeat("x", 1025)), 0}, N: 1},
		{Target: Target{weir.K("t", "u"), 0}, N: -1},
	} {
		if o, err := r.Decide(context.Background(), &a); err == nil || strings.Contains(err.Error(), ".block") {
			t.Errorf("%+v: %+v, %v", a, o, err)
		}
	}
	if err := reset(r, weir.K("t")); !errors.Is(err, &weir.InputError{Field: "key"}) || strings.Contains(err.Error(), ".block") {
		t.Errorf("a reset: %v", err)
	}
}
