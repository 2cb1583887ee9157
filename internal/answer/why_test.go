package answer

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// story is one decision about one limit, and the sentence it must give.
type story struct {
	name  string
	limit weir.Limit // of kindStories; the others have the numbers of state
	mode  weir.Mode
	op    weir.Op
	n     int64
	d     weir.Decision
	state weir.LimitState
	units string
	until time.Time
	kind  weir.Kind
	want  string
}

const (
	minute = time.Minute
	second = time.Second
)

var stories = []story{
	{name: "full", n: 1,
		d:     weir.Decision{Limit: "push", RetryAfter: 412 * second},
		state: weir.LimitState{Max: 10, Window: 30 * minute, Used: 10, RetryAfter: 412 * second},
		want:  "10 of 10 used in the last 30m for teacher=42; room again in 6m52s"},
	{name: "full, a fixed window", n: 1, kind: weir.Fixed,
		d:     weir.Decision{Limit: "push", RetryAfter: 412 * second},
		state: weir.LimitState{Max: 10, Window: time.Hour, Used: 10, RetryAfter: 412 * second},
		want:  "10 of 10 used in this window of 1h for teacher=42; room again in 6m52s"},
	{name: "allowed, a fixed window", n: 1, kind: weir.FixedFromFirst,
		d:     weir.Decision{Allowed: true, Granted: 1, Remaining: 3},
		state: weir.LimitState{Max: 10, Window: minute, Used: 7, Remaining: 3},
		want:  "7 of 10 used in this window of 1m for teacher=42, 3 left"},
	{name: "a word for the units", n: 1, units: "messages",
		d:     weir.Decision{Limit: "push", RetryAfter: time.Hour},
		state: weir.LimitState{Max: 10, Window: day, Used: 10},
		want:  "10 of 10 messages used in the last 24h for teacher=42; room again in 1h"},
	{name: "a weight that does not fit yet", n: 5,
		d:     weir.Decision{Limit: "push", RetryAfter: 90 * second},
		state: weir.LimitState{Max: 10, Window: 30 * minute, Used: 8, Remaining: 2},
		want:  "8 of 10 used in the last 30m for teacher=42 and 5 more asked for; room for 5 in 1m30s"},
	{name: "too close", n: 1,
		d:     weir.Decision{Limit: "push", RetryAfter: 1_799_900 * time.Microsecond},
		state: weir.LimitState{Max: 10, Window: minute, MinInterval: 3 * second, Used: 1, Remaining: 9, MinIntervalAfter: 1_799_900 * time.Microsecond},
		want:  "the last grant was 1.2s ago and grants must be 3s apart for teacher=42; open again in 1.8s"},
	{name: "full and too close", n: 1,
		d:     weir.Decision{Limit: "push", RetryAfter: 2 * second},
		state: weir.LimitState{Max: 1, Window: 2 * second, MinInterval: 2 * second, Used: 1, MinIntervalAfter: 2 * second},
		want:  "1 of 1 used in the last 2s for teacher=42; room again in 2s"},
	{name: "too close, denied attempts count", mode: weir.CountDenied, n: 1,
		d:     weir.Decision{Limit: "push", RetryAfter: 3 * second},
		state: weir.LimitState{Max: 10, Window: minute, MinInterval: 3 * second, Used: 2, Remaining: 8, MinIntervalAfter: 3 * second},
		want:  "attempts must be 3s apart for teacher=42, and a denied one counts too; open again in 3s"},
	{name: "full, denied attempts count", mode: weir.CountDenied, n: 1,
		d:     weir.Decision{Limit: "push", RetryAfter: minute},
		state: weir.LimitState{Max: 3, Window: minute, Used: 4, Remaining: -1},
		want:  "4 of 3 used in the last minute for teacher=42, denied attempts included; room again in 1m"},
	{name: "never", n: 15,
		d:     weir.Decision{Limit: "push", RetryAfter: weir.Never},
		state: weir.LimitState{Max: 10, Window: day, Remaining: 10, RetryAfter: weir.Never},
		want:  `asks for 15 units, but limit "push" never allows more than 10 in 24h; ask for less`},
	{name: "never with the checks decided together", n: 6,
		d:     weir.Decision{Limit: "push", RetryAfter: weir.Never},
		state: weir.LimitState{Max: 10, Window: minute, Remaining: 10, RetryAfter: weir.Never},
		want:  "0 of 10 used in the last minute for teacher=42 and 6 more asked for; together with the other checks it never fits, ask for less"},
	{name: "never, with a word", n: 15, units: "messages",
		d:     weir.Decision{Limit: "push", RetryAfter: weir.Never},
		state: weir.LimitState{Max: 10, Window: day, Remaining: 10, RetryAfter: weir.Never},
		want:  `asks for 15 messages, but limit "push" never allows more than 10 in 24h; ask for less`},
	{name: "a limit of nothing", n: 1,
		d:     weir.Decision{Limit: "push", RetryAfter: weir.Never},
		state: weir.LimitState{Window: minute, RetryAfter: weir.Never},
		want:  `limit "push" allows nothing for teacher=42; it opens only when its max is raised`},
	{name: "allowed", n: 1,
		d:     weir.Decision{Allowed: true, Granted: 1, Remaining: 3},
		state: weir.LimitState{Max: 10, Window: minute, Used: 7, Remaining: 3},
		want:  "7 of 10 used in the last minute for teacher=42, 3 left"},
	{name: "allowed, the last one", n: 1,
		d:     weir.Decision{Allowed: true, Granted: 1, RetryAfter: 51_400 * time.Millisecond},
		state: weir.LimitState{Max: 10, Window: minute, Used: 10},
		want:  "10 of 10 used in the last minute for teacher=42; the same again fits in 52s"},
	{name: "allowed, no limit", n: 1,
		d:     weir.Decision{Allowed: true, Granted: 1, Remaining: weir.MaxUnits - 7},
		state: weir.LimitState{Max: weir.MaxUnits, Window: minute, Used: 7, Remaining: weir.MaxUnits - 7},
		want:  "7 used in the last minute for teacher=42"},
	{name: "recorded", op: weir.OpRecord, n: 5,
		d:     weir.Decision{Allowed: true, Granted: 5, Remaining: -2, RetryAfter: minute},
		state: weir.LimitState{Max: 10, Window: minute, Used: 12, Remaining: -2},
		want:  "recorded 5 units: 12 of 10 used in the last minute for teacher=42; the same again fits in 1m"},
	{name: "a part", mode: weir.Partial, n: 10,
		d:     weir.Decision{Allowed: true, Granted: 4, Limit: "push", RetryAfter: minute},
		state: weir.LimitState{Max: 10, Window: minute, Used: 10, NextAfter: 20 * second},
		want:  "4 of the 10 units granted: 10 of 10 used in the last minute for teacher=42; room for all 10 in 1m"},
	{name: "a part would be", mode: weir.Partial, op: weir.OpPeek, n: 10,
		d:     weir.Decision{Allowed: true, Granted: 4, Remaining: 4, Limit: "push", RetryAfter: minute},
		state: weir.LimitState{Max: 10, Window: minute, Used: 6, Remaining: 4, NextAfter: 20 * second},
		want:  "4 of the 10 units would be granted: 6 of 10 used in the last minute for teacher=42; room for all 10 in 1m"},
	{name: "never whole, none now", mode: weir.Partial, n: 15,
		d:     weir.Decision{Limit: "push", RetryAfter: weir.Never},
		state: weir.LimitState{Max: 10, Window: minute, Used: 10, RetryAfter: weir.Never, NextAfter: 20 * second},
		want:  "10 of 10 used in the last minute for teacher=42; all 15 never fit at once, some may in 20s"},
	{name: "blocked", n: 1, until: instant.Add(8 * minute),
		d:     weir.Decision{Limit: "push", RetryAfter: 8 * minute},
		state: weir.LimitState{Max: 10, Window: minute, Used: 3},
		want:  `blocked for teacher=42 by limit "push" until UNTIL; the same fits in 8m`},
	{name: "blocked, and more than ever", n: 15, until: instant.Add(8 * minute),
		d:     weir.Decision{Limit: "push", RetryAfter: weir.Never},
		state: weir.LimitState{Max: 10, Window: minute, Used: 3, RetryAfter: weir.Never},
		want:  `blocked for teacher=42 by limit "push" until UNTIL; the same never fits, ask for less`},
	{name: "recorded while blocked", op: weir.OpRecord, n: 1, until: instant.Add(8 * minute),
		d:     weir.Decision{Allowed: true, Granted: 1, RetryAfter: 8 * minute},
		state: weir.LimitState{Max: 10, Window: minute, Used: 3},
		want:  "recorded 1 unit: 3 of 10 used in the last minute for teacher=42; the same again fits in 8m"},
	{name: "a fallback answered", n: 1,
		d:     weir.Decision{Allowed: true, Granted: 1, Remaining: 3, Degraded: true},
		state: weir.LimitState{Max: 10, Window: minute, Used: 7, Remaining: 3},
		want:  "7 of 10 used in the last minute for teacher=42, 3 left; the store could not be asked, a fallback answered"},
}

func TestWhy(t *testing.T) {
	for _, s := range stories {
		plan := must.Get(weir.Policy{Name: "push", Mode: s.mode, Limits: []weir.Limit{{
			Name: "push", Max: s.state.Max, Window: s.state.Window, MinInterval: s.state.MinInterval, By: []string{"teacher"}, Kind: s.kind}}}.Compile())(t)
		s.state.Name = "push"
		a := Answer{Compiled: plan, Key: weir.K("42"), Op: s.op, N: s.n, Decision: s.d,
			States: []weir.LimitState{s.state}, Units: []string{s.units}, Blocked: s.until}
		s.want = strings.Replace(s.want, "UNTIL", s.until.UTC().Format("2006-01-02T15:04:05.000000Z"), 1)
		if got := a.Why(nil); got != s.want {
			t.Errorf("%s:\ngot  %s\nwant %s", s.name, got, s.want)
		}
	}
}

func TestWhyTellsOfTheLimitThatMatters(t *testing.T) {
	shared := "100 of 100 used in the last 30m by all callers together; room again in 10s"
	a := slack(t, weir.Decision{Limit: "channel", RetryAfter: 10 * second})
	a.States[0].Used, a.States[0].Remaining = 100, 0
	if got := a.Why(nil); got != shared {
		t.Errorf("denied by the shared limit: got %s, want %s", got, shared)
	}
	a = slack(t, weir.Decision{Allowed: true, Granted: 1, RetryAfter: 412 * second})
	if got, want := a.Why(nil), "10 of 10 used in the last 30m for category=errors; the same again fits in 6m52s"; got != want {
		t.Errorf("allowed, the next must wait: got %s, want %s", got, want)
	}
	a = slack(t, weir.Decision{Allowed: true, Granted: 1, Remaining: 5})
	a.States[1].Used, a.States[1].Remaining, a.States[1].RetryAfter = 5, 5, 0
	if got, want := a.Why(nil), "5 of 10 used in the last 30m for category=errors, 5 left"; got != want {
		t.Errorf("allowed, least room: got %s, want %s", got, want)
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

// kindStories are decisions about buckets, periods and limits of what is in use at once.
var kindStories = []story{
	{name: "an empty bucket", limit: tenPerSecond, n: 1,
		d:     weir.Decision{Limit: "p", RetryAfter: 37 * time.Millisecond},
		state: weir.LimitState{Used: 20, RetryAfter: 37 * time.Millisecond, NextAfter: 37 * time.Millisecond},
		want:  "empty for user=ann: one unit flows in every 100ms, capacity 20; room again in 37ms"},
	{name: "a bucket below empty", limit: tenPerSecond, n: 1,
		d:     weir.Decision{Limit: "p", RetryAfter: 537 * time.Millisecond},
		state: weir.LimitState{Used: 25, Remaining: -5, RetryAfter: 537 * time.Millisecond, NextAfter: 37 * time.Millisecond},
		want:  "5 below empty for user=ann: one unit flows in every 100ms, capacity 20; room again in 537ms"},
	{name: "a bucket for all, with a word", n: 1, units: "tokens",
		limit: weir.Limit{Kind: weir.Bucket, Max: 3, Window: second, Burst: 20},
		d:     weir.Decision{Limit: "p", RetryAfter: 300 * time.Millisecond},
		state: weir.LimitState{Used: 20, RetryAfter: 300 * time.Millisecond},
		want:  "empty for all callers together: 3 units flow in every second, capacity 20 tokens; room again in 300ms"},
	{name: "a bucket with too little", limit: tenPerSecond, n: 15,
		d:     weir.Decision{Limit: "p", RetryAfter: 200 * time.Millisecond},
		state: weir.LimitState{Used: 7, Remaining: 13, RetryAfter: 200 * time.Millisecond},
		want:  "13 of 20 left in the bucket for user=ann and 15 more asked for; room for 15 in 200ms"},
	{name: "more than a bucket holds", limit: tenPerSecond, n: 21,
		d:     weir.Decision{Limit: "p", RetryAfter: weir.Never},
		state: weir.LimitState{Remaining: 20, RetryAfter: weir.Never},
		want:  `asks for 21 units, but limit "p" is a bucket of 20; ask for less`},
	{name: "allowed by a bucket", limit: tenPerSecond, n: 1,
		d:     weir.Decision{Allowed: true, Granted: 1, Remaining: 13},
		state: weir.LimitState{Used: 7, Remaining: 13},
		want:  "13 of 20 left in the bucket for user=ann"},
	{name: "all in use", limit: twentyAtOnce, n: 1,
		d:     weir.Decision{Limit: "p", RetryAfter: 12 * second},
		state: weir.LimitState{Used: 20, RetryAfter: 12 * second, NextAfter: 12 * second},
		want:  "20 of 20 in use for user=ann; the next hold ends in 12s at the latest"},
	{name: "more in use than the limit", limit: twentyAtOnce, n: 1, units: "jobs",
		d:     weir.Decision{Limit: "p", RetryAfter: 14 * second},
		state: weir.LimitState{Used: 21, Remaining: -1, RetryAfter: 14 * second, NextAfter: 12 * second},
		want:  "21 of 20 jobs in use for user=ann; room again in 14s at the latest"},
	{name: "more than can be in use", limit: twentyAtOnce, n: 21,
		d:     weir.Decision{Limit: "p", RetryAfter: weir.Never},
		state: weir.LimitState{Remaining: 20, RetryAfter: weir.Never},
		want:  `asks for 21 units, but limit "p" never allows more than 20 at once; ask for less`},
	{name: "allowed at once", limit: twentyAtOnce, n: 1,
		d:     weir.Decision{Allowed: true, Granted: 1, Remaining: 17},
		state: weir.LimitState{Used: 3, Remaining: 17},
		want:  "3 of 20 in use for user=ann, 17 left"},
	{name: "the last one at once", limit: twentyAtOnce, n: 1,
		d:     weir.Decision{Allowed: true, Granted: 1, RetryAfter: 30 * second},
		state: weir.LimitState{Used: 20, RetryAfter: 30 * second},
		want:  "20 of 20 in use for user=ann; the same again fits in 30s at the latest"},

	{name: "a full day", limit: perPeriod(weir.Day, "Europe/Berlin", 0), n: 1,
		d:     weir.Decision{Limit: "p", RetryAfter: 3 * time.Hour},
		state: weir.LimitState{Used: 1000, RetryAfter: 3 * time.Hour, NextAfter: 3 * time.Hour},
		want:  "1000 of 1000 used today in Europe/Berlin for user=ann; the day ends in 3h"},
	{name: "a full hour of UTC", limit: perPeriod(weir.Hour, "", 0), n: 1,
		d:     weir.Decision{Limit: "p", RetryAfter: minute},
		state: weir.LimitState{Used: 1000, RetryAfter: minute, NextAfter: minute},
		want:  "1000 of 1000 used this hour in UTC for user=ann; the hour ends in 1m"},
	{name: "a full week", limit: perPeriod(weir.Week, "America/New_York", 7), n: 1,
		d:     weir.Decision{Limit: "p", RetryAfter: minute},
		state: weir.LimitState{Used: 1000, RetryAfter: minute, NextAfter: minute},
		want:  "1000 of 1000 used this week from Sunday in America/New_York for user=ann; the week ends in 1m"},
	{name: "a full month", limit: perPeriod(weir.Month, "America/New_York", 14), n: 1,
		d:     weir.Decision{Limit: "p", RetryAfter: 99 * time.Hour},
		state: weir.LimitState{Used: 1000, RetryAfter: 99 * time.Hour, NextAfter: 99 * time.Hour},
		want:  "1000 of 1000 used this month from the 14th in America/New_York for user=ann; the month ends in 4d3h"},
	{name: "an interval longer than the rest of the day", limit: perPeriod(weir.Day, "", 0), n: 1,
		d:     weir.Decision{Limit: "p", RetryAfter: 3 * minute},
		state: weir.LimitState{Used: 1000, RetryAfter: 3 * minute, NextAfter: minute, MinIntervalAfter: 3 * minute},
		want:  "1000 of 1000 used today in UTC for user=ann; room again in 3m"},
	{name: "a day with too little left", limit: perPeriod(weir.Day, "", 0), n: 20,
		d:     weir.Decision{Limit: "p", RetryAfter: 3 * time.Hour},
		state: weir.LimitState{Used: 990, Remaining: 10, RetryAfter: 3 * time.Hour, NextAfter: 3 * time.Hour},
		want:  "990 of 1000 used today in UTC for user=ann and 20 more asked for; room for 20 in 3h"},
	{name: "more than a month allows", limit: perPeriod(weir.Month, "", 0), n: 1001,
		d:     weir.Decision{Limit: "p", RetryAfter: weir.Never},
		state: weir.LimitState{Remaining: 1000, RetryAfter: weir.Never},
		want:  `asks for 1001 units, but limit "p" never allows more than 1000 in a month; ask for less`},
	{name: "recorded in a day", limit: perPeriod(weir.Day, "", 0), op: weir.OpRecord, n: 5,
		d:     weir.Decision{Allowed: true, Granted: 5, Remaining: 10},
		state: weir.LimitState{Used: 990, Remaining: 10},
		want:  "recorded 5 units: 990 of 1000 used today in UTC for user=ann, 10 left"},
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
func answerOf(t *testing.T, l weir.Limit, mode weir.Mode, state weir.LimitState) *Answer {
	t.Helper()
	l.Name = "p"
	if l.Kind == weir.Fixed {
		l.MinInterval = state.MinIntervalAfter
	}
	plan := must.Get(weir.Policy{Name: "p", Mode: mode, Limits: []weir.Limit{
		l, {Name: "other", Max: weir.MaxUnits, Window: second, By: []string{"user"}}}}.Compile())(t)
	of := plan.Limits[0].Describe()
	state.Name, state.Kind, state.Max, state.Burst, state.Window, state.MaxHold = of.Name, of.Kind, of.Max, of.Burst, of.Window, of.MaxHold
	return &Answer{Compiled: plan, Key: weir.K("ann"), N: 1,
		States: []weir.LimitState{state, {Name: "other", Max: weir.MaxUnits, Remaining: weir.MaxUnits, Window: second}}}
}

func TestWhyOfEachKind(t *testing.T) {
	for _, s := range kindStories {
		a := answerOf(t, s.limit, s.mode, s.state)
		a.Op, a.N, a.Decision, a.Units = s.op, s.n, s.d, []string{s.units}
		if got := a.Why(nil); got != s.want {
			t.Errorf("%s:\ngot  %s\nwant %s", s.name, got, s.want)
		}
	}
}

func TestJSONOfEachKind(t *testing.T) {
	for _, c := range []struct {
		limit weir.Limit
		want  string
	}{
		{tenPerSecond, `"window_ms":1000,"kind":"bucket","burst":20,"retry_after_ms"`},
		{weir.Limit{Kind: weir.Bucket, Max: 5, Window: second}, `"window_ms":1000,"kind":"bucket","burst":5,"retry_after_ms"`},
		{twentyAtOnce, `"window_ms":30000,"kind":"concurrency","max_hold_ms":30000,"retry_after_ms"`},
		{perPeriod(weir.Day, "Europe/Berlin", 0), `"window_ms":86400000,"kind":"fixed","period":"day","zone":"Europe/Berlin","retry_after_ms"`},
		{perPeriod(weir.Month, "", 14), `"window_ms":2678400000,"kind":"fixed","period":"month","zone":"UTC","anchor":14,"retry_after_ms"`},
		{weir.Limit{Kind: weir.Rolling, Max: 5, Window: second}, `"window_ms":1000,"kind":"rolling","retry_after_ms"`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Window: second}, `"window_ms":1000,"kind":"fixed","retry_after_ms"`},
		{weir.Limit{Kind: weir.FixedFromFirst, Max: 5, Window: second}, `"window_ms":1000,"kind":"fixed_from_first","retry_after_ms"`},
	} {
		a := answerOf(t, c.limit, weir.AllOrNothing, weir.LimitState{})
		if got := string(a.AppendJSON(nil, nil)); !strings.Contains(got, c.want) {
			t.Errorf("%v: got %s, want %s in it", c.limit.Kind, got, c.want)
		}
	}
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
		a := answerOf(t, c.limit, weir.AllOrNothing, weir.LimitState{Used: 3})
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
		a := answerOf(t, c.limit, weir.AllOrNothing, weir.LimitState{})
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
