package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// longerHolds is an engine that holds units for a time longer.
type longerHolds struct {
	engine.Engine
	time time.Duration
}

func (e longerHolds) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		c, limits := calls[i].Rules, slices.Clone(calls[i].Rules.Limits)
		for j := range limits {
			if limits[j].Kind == engine.Concurrency {
				limits[j].Window += e.time.Microseconds()
			}
		}
		calls[i].Rules = engine.Compile(c.Name, c.Mode, c.Dimensions, limits)
	}
	e.Engine.Do(ctx, calls)
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
