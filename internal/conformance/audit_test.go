package conformance

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestSpecificationKeepsThePromise: random attempts, many at the end of an announced wait, stand
// the audit of concurrent histories: no window, span of a bucket or interval has too much, no
// denial is unjustified, and nothing else is recorded. The audit shares no code with the
// specification, and here each call takes no time.
func TestSpecificationKeepsThePromise(t *testing.T) {
	c := DefaultConfig(nil)
	granted, denied := 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 2))
		h := newConcurrentHistory(r, spec.New(), &c)
		if h.pace >= cold { // so many keys that none is denied
			continue
		}
		live, at := h.limiter, time.Duration(0)
		step := int64(h.policy.limits[0].Window)
		for range 120 {
			a := call{key: r.IntN(len(h.keys)), n: r.Int64N(4), from: at, to: at + 1}
			h.limiter = live.At(time.UnixMicro(defaultEpoch).Add(at))
			a.decision = must.Get(h.limiter.AllowN(context.Background(), keyOf(live, h.keys[a.key]), a.n))(t)
			h.calls = append(h.calls, a)
			if a.decision.Allowed {
				granted++
			} else {
				denied++
			}
			if wait := a.decision.RetryAfter; wait != weir.Never && r.IntN(2) == 0 {
				at += wait
			}
			at += time.Duration(r.Int64N(3) * r.Int64N(step/10)).Truncate(us)
		}
		must.Do(t, h.look())
		if breach := h.audit(); breach != "" {
			t.Errorf("seed %d: %s\n%s", seed, breach, h.describe())
		}
	}
	if granted < 5000 || denied < 5000 {
		t.Errorf("%d granted and %d denied: the histories are too tame", granted, denied)
	}
}

// longerHolds is an engine that holds units for a time longer.
type longerHolds struct {
	engine.Engine
	time time.Duration
}

func (e longerHolds) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		c, limits := calls[i].Rules, slices.Clone(calls[i].Rules.Limits)
		for j := range limits {
			if limits[j].Kind == engine.KindConcurrency {
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
