package answer

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

const (
	minute = time.Minute
	second = time.Second
)

// TestWhyOfTwoLimits: the sentence is about the limit that matters, also of a decision with other
// checks, and of one without the store.
func TestWhyOfTwoLimits(t *testing.T) {
	granted := func(d weir.Decision) weir.Decision {
		d.Allowed, d.Granted = true, 1
		return d
	}
	for _, c := range []struct {
		d                 weir.Decision
		n                 int64
		channel, category int64 // units used
		want              string
	}{
		{weir.Decision{Limit: "channel", RetryAfter: 10 * second}, 1, 100, 10, "100 of 100 used in the last 30m by all callers together; room again in 10s"},
		{granted(weir.Decision{RetryAfter: 412 * second}), 1, 63, 10, "10 of 10 used in the last 30m for category=errors; the same again fits in 6m52s"},
		{granted(weir.Decision{Remaining: 5}), 1, 63, 5, "5 of 10 used in the last 30m for category=errors, 5 left"},
		{granted(weir.Decision{Remaining: 3, Degraded: true}), 1, 0, 7, "7 of 10 used in the last 30m for category=errors, 3 left; the store could not be asked, a fallback answered"},
		{weir.Decision{Limit: "category", RetryAfter: weir.Never}, 6, 0, 0,
			"0 of 10 used in the last 30m for category=errors and 6 more asked for; together with the other checks it never fits, ask for less"},
	} {
		a := slack(t, c.d)
		a.N = c.n
		for i, used := range []int64{c.channel, c.category} {
			s := &a.States[i]
			if s.Used, s.Remaining = used, s.Max-used; s.Remaining > 0 {
				s.RetryAfter = 0
			}
		}
		if got := a.Why(nil); got != c.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", c.d, got, c.want)
		}
	}
}

func TestWhyWithoutStates(t *testing.T) {
	for _, c := range []struct {
		d    weir.Decision
		want string
	}{
		{weir.Decision{Allowed: true, Remaining: 3}, "3 left"},
		{weir.Decision{Limit: "category", RetryAfter: 90 * second}, `limit "category" denied; the same fits in 1m30s`},
		{weir.Decision{Limit: "category", RetryAfter: weir.Never}, `limit "category" can never grant this; ask for less`},
		{weir.Decision{Allowed: true, Degraded: true}, "allowed without counting: the store could not be asked"},
		{weir.Decision{Degraded: true}, "denied: the store could not be asked; try again later"},
	} {
		a := slack(t, c.d)
		a.States = nil
		if got := a.Why(nil); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.d, got, c.want)
		}
	}
}

// A sentence holds no control character, whatever the key holds, and stays short.
func TestWhyShowsHostileKeys(t *testing.T) {
	for _, v := range []string{"\x1b[2J\x07", "a\r\nb", "\x00", strings.Repeat("\x01", weir.MaxValueBytes), strings.Repeat("é", 512), "\u202e\u2028"} {
		a := slack(t, weir.Decision{Limit: "category", RetryAfter: second})
		a.Key = weir.K(v)
		why := a.Why(nil)
		for _, r := range why {
			if r < 0x20 || 0x7f <= r && r < 0xa0 || r == '\u202e' || r == '\u2028' {
				t.Errorf("key %q: %U in the sentence %q", v, r, why)
			}
		}
		if len(why) > 400 {
			t.Errorf("key of %d bytes: a sentence of %d bytes", len(v), len(why))
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	plan := must.Get(weir.Policy{Name: "push", Limits: []weir.Limit{{Name: "push", Max: 10, Window: minute, By: []string{"teacher"}}}}.Compile())(b)
	a := Answer{Compiled: plan, Key: weir.K("42"), N: 1,
		Decision: weir.Decision{Limit: "push", RetryAfter: second, At: instant},
		States:   []weir.LimitState{{Name: "push", Max: 10, Window: minute, Used: 10, RetryAfter: second}}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = a.AppendJSON(buf[:0], nil)
	}
}

var (
	tenPerSecond = weir.Limit{Kind: weir.Bucket, Max: 10, Window: second, Burst: 20, By: []string{"user"}}
	twentyAtOnce = weir.Limit{Kind: weir.Concurrency, Max: 20, MaxHold: 30 * second, By: []string{"user"}}
)

func perPeriod(p weir.Period, zone string, anchor int) weir.Limit {
	return weir.Limit{Kind: weir.Fixed, Max: 1000, Period: p, Zone: zone, Anchor: anchor, By: []string{"user"}}
}

// answerOf returns an answer about the limit p, and about another one by user with a state
// that does not matter.
func answerOf(t *testing.T, l weir.Limit, state weir.LimitState) *Answer {
	t.Helper()
	l.Name = "p"
	plan := must.Get(weir.Policy{Name: "p", Limits: []weir.Limit{
		l, {Name: "other", Max: weir.MaxUnits, Window: second, By: []string{"user"}}}}.Compile())(t)
	of := plan.Limits[0].Describe()
	state.Name, state.Kind, state.Max, state.Burst, state.Window, state.MaxHold = of.Name, of.Kind, of.Max, of.Burst, of.Window, of.MaxHold
	return &Answer{Compiled: plan, Key: weir.K("ann"), N: 1,
		States: []weir.LimitState{state, {Name: "other", Max: weir.MaxUnits, Remaining: weir.MaxUnits, Window: second}}}
}

func TestBound(t *testing.T) {
	for _, c := range []struct {
		limit weir.Limit
		want  string
	}{
		{weir.Limit{Max: 5, Window: 30 * minute}, "at most 5 in 30m, and 3 are used"},
		{weir.Limit{Kind: weir.FixedFromFirst, Max: 5, Window: 30 * minute}, "at most 5 in 30m, and 3 are used"},
		{tenPerSecond, "a bucket of 20, one unit flows in every 100ms, and 3 are missing"},
		{twentyAtOnce, "at most 20 at once, and 3 are in use"},
		{perPeriod(weir.Week, "", 0), "at most 1000 in a week, and 3 are used this week in UTC"},
	} {
		a := answerOf(t, c.limit, weir.LimitState{Used: 3})
		if got := Bound(&a.Compiled.Limits[0], &a.States[0]); got != c.want {
			t.Errorf("%v: got %s, want %s", c.limit.Kind, got, c.want)
		}
	}
}

// Each kind has its own worst case, quota and longest denial, in numbers and in words.
func TestNumbersOfEachKind(t *testing.T) {
	for _, c := range []struct {
		limit                             weir.Limit
		worst, quota                      int64 // units; seconds
		unit                              string
		longest                           time.Duration
		reason, bound, uncounted, windows string
	}{
		{weir.Limit{Max: 5, Window: minute}, 5, 60, "", minute, "its window",
			"at most 5 in any LENGTH", "", "1m"},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Window: minute}, 10, 60, "", minute, "its window",
			"at most 10 in any LENGTH, across the edge of two windows", "has fixed windows, which store no instants to count", "1m"},
		{weir.Limit{Kind: weir.FixedFromFirst, Max: 5, Window: minute}, 10, 60, "", minute, "its window",
			"at most 10 in any LENGTH, across the edge of two windows", "has fixed windows, which store no instants to count", "1m"},
		{perPeriod(weir.Day, "Europe/Berlin", 0), 2000, 86400, "", 24 * time.Hour, "its window",
			"at most 1000 in each day, and up to 2000 in its length across an edge", "has fixed windows, which store no instants to count", "day in Europe/Berlin"},
		{perPeriod(weir.Month, "", 14), 2000, 0, "", 31 * 24 * time.Hour, "its window",
			"at most 1000 in each month, and up to 2000 in its length across an edge", "has fixed windows, which store no instants to count", "month in UTC"},
		{tenPerSecond, 30, 2, "", 2 * second, "the time in which it fills",
			"at most 20 at once, and in any second at most 30", "is a bucket, which stores no instants to count", "10 per 1s"},
		{twentyAtOnce, 20, 0, "concurrent-requests", 30 * second, "the time of a hold",
			"at most 20 held at any instant; a hold ends with its settlement, at the latest after LENGTH; those of plain attempts, such as Envoy's, only after LENGTH",
			"counts units in use at once, not those of a span", "at once"},
	} {
		a := answerOf(t, c.limit, weir.LimitState{})
		l, name := &a.Compiled.Limits[0], a.Compiled.Limits[0].Kind.String()
		if got := Worst(l); got != c.worst {
			t.Errorf("%s: worst case of %d units, want %d", name, got, c.worst)
		}
		if window, unit := Quota(l); window != c.quota*1e6 || unit != c.unit {
			t.Errorf("%s: quota in %d µs, unit %q; want %d s, %q", name, window, unit, c.quota, c.unit)
		}
		if longest, reason := Longest(l); longest != c.longest || reason != c.reason {
			t.Errorf("%s: denies for %v, %s; want %v, %s", name, longest, reason, c.longest, c.reason)
		}
		for got, want := range map[string]string{WorstCase(l, "LENGTH"): c.bound, Uncounted(l): c.uncounted, Window(l, &a.States[0]): c.windows} {
			if got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}

func TestOrdinal(t *testing.T) {
	for day, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 20: "20th", 21: "21st", 22: "22nd", 23: "23rd", 31: "31st"} {
		if got := Ordinal(day); got != want {
			t.Errorf("%d: got %s, want %s", day, got, want)
		}
	}
}
