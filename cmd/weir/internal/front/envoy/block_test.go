package envoy

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/policy"
)

// opening is an engine. A peek at the key "late" of the policy guard finds no room, and the
// attempt after it finds room.
type opening struct {
	engine.Engine
	attempts, refunds int
}

func (o *opening) Do(ctx context.Context, calls []engine.Call) {
	o.Engine.Do(ctx, calls)
	for i := range calls {
		c := &calls[i]
		late := c.Rules.Name == "guard" && c.Key.Value(0) == "late"
		switch {
		case c.Op == engine.Refund:
			o.refunds++
		case late && c.Op == engine.Attempt:
			o.attempts++
		case late && c.Op == engine.Peek:
			c.Result = engine.Result{At: c.Result.At, Limit: "limit", RetryAfter: time.Microsecond}
		}
	}
}

// TestGrantedBlockAttemptIsRefunded: the attempt that should begin a block may be
// granted. The request was denied, so the grant is refunded.
func TestGrantedBlockAttemptIsRefunded(t *testing.T) {
	e := &opening{Engine: weir.NewMemory()}
	rule, err := enforce.NewRule(&policy.Definition{Name: "guard", Blocks: []time.Duration{time.Hour},
		Limits: []weir.Limit{{Name: "limit", Max: 2, Window: time.Minute, By: []string{"user"}}}}, apart{e})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, apart{e}, nil)
	if err := p.service.Load(nil, []*enforce.Rule{rule}); err != nil {
		t.Fatal(err)
	}
	guard := p.in("guard")
	guard.wants("OVER_LIMIT | OVER_LIMIT 0/2 1µs | OK 2/2 0s", "user=late", "user=other")
	if e.attempts != 1 || e.refunds != 1 {
		t.Errorf("%d attempts, %d refunds; want one of each", e.attempts, e.refunds)
	}
	count := []engine.Call{{Rules: rule.Compiled, Key: weir.K("late"), Op: engine.Count, From: 60_000_000}}
	if e.Do(t.Context(), count); count[0].Result.Granted != 0 || count[0].Err != nil {
		t.Errorf("%d charged, %v", count[0].Result.Granted, count[0].Err)
	}
}
