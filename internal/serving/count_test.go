package serving

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/observe"
)

// TestCountedLimit: a count needs a rolling limit, and the error names one (R11). The
// wording of each front is tested in internal/server.
func TestCountedLimit(t *testing.T) {
	minute := weir.Limit{Name: "minute", Max: 10, Window: time.Minute}
	hour := weir.Limit{Name: "hour", Max: 100, Window: time.Hour}
	bucket := weir.Limit{Name: "pace", Kind: weir.Bucket, Max: 10, Window: time.Minute}
	day := weir.Limit{Name: "day", Kind: weir.FirstHit, Max: 10, Window: 24 * time.Hour}
	held := weir.Limit{Name: "held", Kind: weir.InFlight, Max: 10, Window: time.Minute}
	for _, c := range []struct {
		name, want string // the counted limit, or a part of the error
		limits     []weir.Limit
	}{
		{"", "minute", []weir.Limit{minute}},
		{"hour", "hour", []weir.Limit{minute, hour}},
		{"", `"limit" is missing: policy "p" has several limits; name one of "minute", "hour"`, []weir.Limit{minute, hour}},
		{"minutes", `no limit "minutes" in policy "p"; did you mean "minute"?`, []weir.Limit{minute, hour}},
		{"xyz", `its only limit is "minute"`, []weir.Limit{minute}},
		{"xyz", `its limits are "minute", "hour"`, []weir.Limit{minute, hour}},
		{"pace", `"pace" of policy "p" is a bucket, which stores no instants to count; a peek returns its room; rolling limits of this policy: "minute"`, []weir.Limit{minute, bucket}},
		{"day", `has fixed windows, which store no instants to count; a peek returns its room`, []weir.Limit{day}},
		{"held", `counts units in use at once`, []weir.Limit{held}},
	} {
		limiter, err := weir.New(weir.Policy{Name: "p", Limits: c.limits})
		if err != nil {
			t.Fatal(err)
		}
		limit, err := countedLimit(limiter.Plan(), observe.HTTP, c.name)
		if err == nil && limit.Name != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v; want %s", c.name, limit, err, c.want)
		}
	}
}

// TestSpanOf: a span is 1 ms to the whole window, also where that is no whole number of
// milliseconds.
func TestSpanOf(t *testing.T) {
	limit := &weir.PlanLimit{Name: "l", Window: 1500}
	for _, c := range []struct {
		ms   int64
		want time.Duration // 0: bad input
	}{{0, 0}, {-1, 0}, {1, time.Millisecond}, {2, 1500 * time.Microsecond}, {3, 0}, {1<<63 - 1, 0}} {
		got, err := spanOf(limit, observe.HTTP, c.ms)
		if got != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%d ms: %v, %v; want %v", c.ms, got, err, c.want)
		}
	}
}
