package calls

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
)

// TestCountedLimit: a count needs a rolling limit, and the error names one (R11). The
// wording of each front is tested in cmd/weir/internal/server.
func TestCountedLimit(t *testing.T) {
	minute := weir.Limit{Name: "minute", Max: 10, Window: time.Minute}
	hour := weir.Limit{Name: "hour", Max: 100, Window: time.Hour}
	bucket := weir.Limit{Name: "pace", Kind: weir.Bucket, Max: 10, Window: time.Minute}
	day := weir.Limit{Name: "day", Kind: weir.FixedFromFirst, Max: 10, Window: 24 * time.Hour}
	held := weir.Limit{Name: "held", Kind: weir.Concurrency, Max: 10, MaxHold: time.Minute}
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
		limit, err := countedLimit(limiter.Compiled(), observe.HTTP, c.name)
		if err == nil && limit.Name != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v; want %s", c.name, limit, err, c.want)
		}
	}
}

// TestSpanOf: a span is 1 ms to the whole window, also where that is no whole number of
// milliseconds.
func TestSpanOf(t *testing.T) {
	limit := &engine.Limit{Name: "l", Window: 1500}
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

// TestOutcomeOf: the outcome of a call follows from its operation, units and decision.
func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		op   weir.Op
		n    int64
		d    weir.Decision
		want observe.Outcome
	}{
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 2}, observe.Allowed},
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 1}, observe.Partial},
		{weir.OpAttempt, 2, weir.Decision{Limit: "l"}, observe.Denied},
		{weir.OpAttempt, 2, weir.Decision{}, observe.Peeked}, // other checks were denied
		{weir.OpAttempt, 0, weir.Decision{Allowed: true}, observe.Peeked},
		{weir.OpPeek, 2, weir.Decision{}, observe.Peeked},
		{weir.OpRecord, 2, weir.Decision{Allowed: true, Granted: 2}, observe.Recorded},
		{weir.OpRecord, 0, weir.Decision{Allowed: true}, observe.Peeked},
		{weir.OpAttempt, 2, weir.Decision{Allowed: true, Granted: 2, Replayed: true}, observe.Replayed},
	} {
		if got := outcomeOf(c.op, c.n, &c.d); got != c.want {
			t.Errorf("op %d of %d units, %+v: %v, want %v", c.op, c.n, c.d, got, c.want)
		}
	}
}
