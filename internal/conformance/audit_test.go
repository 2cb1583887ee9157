package conformance

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// TestSpecificationKeepsThePromise: random attempts, many at the end of an announced wait, stand
// the audit of concurrent histories: no window, span of a bucket or interval has too much, no
// denial is unjustified, and nothing else is recorded. The audit shares no code with the
// specification, and here each call takes no time.
func TestSpecificationKeepsThePromise(t *testing.T) {
	c := DefaultConfig(nil)
	granted, denied, blocked := 0, 0, 0
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
			var err error
			a.decision, err = h.limiter.AllowN(context.Background(), keyOf(live, h.keys[a.key]), a.n)
			if err != nil {
				t.Fatal(err)
			}
			h.calls = append(h.calls, a)
			switch {
			case a.decision.Allowed:
				granted++
			case a.decision.Blocked > 0:
				blocked++
			default:
				denied++
			}
			if wait := a.decision.RetryAfter; wait != weir.Never && r.IntN(2) == 0 {
				at += wait
			}
			at += time.Duration(r.Int64N(3) * r.Int64N(step/10)).Truncate(us)
		}
		var err error
		h.last, err = h.look()
		if err != nil {
			t.Fatal(err)
		}
		if breach := h.audit(); breach != "" {
			t.Errorf("seed %d: %s\n%s", seed, breach, h.describe())
		}
	}
	if granted < 5000 || denied < 5000 || blocked < 500 {
		t.Errorf("%d granted, %d denied, %d by blocks: the histories are too tame", granted, denied, blocked)
	}
}

// TestHoldAuditFindsWrongHolds: the audit of holds notices units that are free too early or too
// late, and a unit too many or too few.
func TestHoldAuditFindsWrongHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			time  time.Duration
			units int64
			want  string
		}{
			{0, 0, ""},
			{-3 * time.Millisecond, 0, "found it expired, and it lasts until"},
			{20 * time.Millisecond, 0, "at most"}, // it was denied, or found
			{20 * time.Millisecond, 1000, "found it, and it ended at"},
			{0, 1, "in use at once"},
			{0, -1, "was denied between"},
		} {
			e := &wrongEngine{Engine: spec.New(), rules: limitsOf(engine.KindConcurrency, func(l *engine.Limit) {
				l.Window += c.time.Microseconds()
				l.Max, l.Capacity = l.Max+c.units, l.Capacity+c.units
			})}
			report := auditHolds(e, Config{Hammers: 8, Seed: 1})
			if !strings.Contains(report, c.want) || (report == "") != (c.want == "") {
				t.Errorf("%v longer, %d units more: %q, want %q", c.time, c.units, report, c.want)
			}
		}
	})
}
