package answer

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// story is one decision about one limit, and the sentence it must give.
type story struct {
	name  string
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
		plan := mustCompile(t, weir.Policy{Name: "push", Mode: s.mode, Limits: []weir.Limit{{
			Name: "push", Max: s.state.Max, Window: s.state.Window, MinInterval: s.state.MinInterval, By: []string{"teacher"}, Kind: s.kind}}})
		s.state.Name = "push"
		a := Answer{Compiled: plan, Key: weir.K("42"), Op: s.op, N: s.n, Decision: s.d,
			States: []weir.LimitState{s.state}, Units: []string{s.units}, Blocked: s.until}
		s.want = strings.Replace(s.want, "UNTIL", s.until.UTC().Format("2006-01-02T15:04:05.000000Z"), 1)
		if got := a.Why(); got != s.want {
			t.Errorf("%s:\ngot  %s\nwant %s", s.name, got, s.want)
		}
	}
}

func TestWhyTellsOfTheLimitThatMatters(t *testing.T) {
	shared := "100 of 100 used in the last 30m by all callers together; room again in 10s"
	a := slack(t, weir.Decision{Limit: "channel", RetryAfter: 10 * second})
	a.States[0].Used, a.States[0].Remaining = 100, 0
	if got := a.Why(); got != shared {
		t.Errorf("denied by the shared limit: got %s, want %s", got, shared)
	}
	a = slack(t, weir.Decision{Allowed: true, Granted: 1, RetryAfter: 412 * second})
	if got, want := a.Why(), "10 of 10 used in the last 30m for category=errors; the same again fits in 6m52s"; got != want {
		t.Errorf("allowed, the next must wait: got %s, want %s", got, want)
	}
	a = slack(t, weir.Decision{Allowed: true, Granted: 1, Remaining: 5})
	a.States[1].Used, a.States[1].Remaining, a.States[1].RetryAfter = 5, 5, 0
	if got, want := a.Why(), "5 of 10 used in the last 30m for category=errors, 5 left"; got != want {
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
		if got := a.Why(); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.d, got, c.want)
		}
	}
}

// A sentence holds no control character, whatever the key holds, and stays short.
func TestWhyShowsHostileKeys(t *testing.T) {
	for _, v := range []string{"\x1b[2J\x07", "a\r\nb", "\x00", strings.Repeat("\x01", weir.MaxValueBytes), strings.Repeat("é", 512), "\u202e\u2028"} {
		a := slack(t, weir.Decision{Limit: "category", RetryAfter: second})
		a.Key = weir.K(v)
		why := a.Why()
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
	plan, err := weir.Policy{Name: "push", Limits: []weir.Limit{{Name: "push", Max: 10, Window: minute, By: []string{"teacher"}}}}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	a := Answer{Compiled: plan, Key: weir.K("42"), N: 1,
		Decision: weir.Decision{Limit: "push", RetryAfter: second, At: instant},
		States:   []weir.LimitState{{Name: "push", Max: 10, Window: minute, Used: 10, RetryAfter: second}}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = a.AppendJSON(buf[:0], nil)
	}
}
