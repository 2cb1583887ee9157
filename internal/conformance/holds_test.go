package conformance

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
)

// longerHolds is an engine that holds units for a time longer.
type longerHolds struct {
	weir.Engine
	time time.Duration
}

func (e longerHolds) plan(p *weir.Plan) *weir.Plan {
	limits := p.Policy().Limits
	for i := range limits {
		if limits[i].Kind == weir.Concurrency {
			limits[i].MaxHold += e.time
		}
	}
	p, err := p.WithLimits(limits)
	mustBeValid(err)
	return p
}

func (e longerHolds) Decide(ctx context.Context, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
	return e.Engine.Decide(ctx, e.plan(p), k, r)
}

func (e longerHolds) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	return e.Engine.Refund(ctx, e.plan(p), k, at, n, now)
}

// TestHoldAuditFindsWrongTimes: the audit of holds notices units that are free too early or
// too late.
func TestHoldAuditFindsWrongTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			change time.Duration
			want   string
		}{{0, ""}, {-3 * time.Millisecond, "in use at once"}, {20 * time.Millisecond, "was denied between"}} {
			report := auditHolds(longerHolds{weir.NewMemory(), c.change}, Config{Hammers: 8, Seed: 1})
			if !strings.Contains(report, c.want) || (report == "") != (c.want == "") {
				t.Errorf("%v: %q, want %q", c.change, report, c.want)
			}
		}
	})
}
