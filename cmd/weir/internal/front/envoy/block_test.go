package envoy

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// opening is a blocking engine. A peek at the key "late" finds no room, and the attempt
// after it finds room.
type opening struct {
	weir.Engine
	attempts, refunds int
}

func (*opening) Blocks() bool { return true }

func (o *opening) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	late := k.Value(0) == "late"
	if late && a.Op == weir.OpAttempt {
		o.attempts++
	}
	d, err := o.Engine.Decide(ctx, p, k, a)
	if late && a.Op == weir.OpPeek {
		d = weir.Decision{At: d.At, Limit: "limit", RetryAfter: time.Microsecond}
	}
	return d, err
}

func (o *opening) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	o.refunds++
	return o.Engine.Refund(ctx, p, k, at, n, now)
}

// TestGrantedBlockAttemptIsRefunded: the attempt that should begin a block may be
// granted. The request was denied, so the grant is refunded.
func TestGrantedBlockAttemptIsRefunded(t *testing.T) {
	plan, err := weir.Policy{Name: "guard", Limits: []weir.Limit{{Name: "limit", Max: 2, Window: time.Minute, By: []string{"user"}}}}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	e := &opening{Engine: weir.NewMemory()}
	p := connect(t, e, nil)
	if err := p.service.Load(nil, []Policy{{Compiled: plan, Engine: e}}); err != nil {
		t.Fatal(err)
	}
	guard := p.in("guard")
	guard.wants("OVER_LIMIT | OVER_LIMIT 0/2 1µs | OK 2/2 0s", "user=late", "user=other")
	if e.attempts != 1 || e.refunds != 1 {
		t.Errorf("%d attempts, %d refunds; want one of each", e.attempts, e.refunds)
	}
	if n, err := e.Count(t.Context(), plan, weir.K("late"), 0, 60_000_000, weir.Now); n != 0 || err != nil {
		t.Errorf("%d charged, %v", n, err)
	}
}
