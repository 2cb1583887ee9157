package answer

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
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
		{granted(weir.Decision{Remaining: 3, Degraded: true}), 1, 0, 7, `3 left in this server's share of limit "category" for category=errors; the store could not decide, a fallback answered`},
		{weir.Decision{Limit: "category", RetryAfter: second, Degraded: true}, 1, 0, 10,
			`nothing left in this server's share of limit "category" for category=errors; room again in 1s; the store could not decide, a fallback answered`},
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
		{weir.Decision{Allowed: true, Degraded: true}, "allowed without counting: the store could not decide"},
		{weir.Decision{Degraded: true}, "denied: the store could not decide; try again later"},
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

func TestOrdinal(t *testing.T) {
	for day, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 20: "20th", 21: "21st", 22: "22nd", 23: "23rd", 31: "31st"} {
		if got := Ordinal(day); got != want {
			t.Errorf("%d: got %s, want %s", day, got, want)
		}
	}
}
