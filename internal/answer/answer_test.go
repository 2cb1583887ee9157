package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

var instant = time.Date(2026, 11, 20, 14, 7, 31, 5_000, time.FixedZone("CET", 3600))

// slack is an answer about two limits, one of them shared by all callers.
func slack(t *testing.T, d weir.Decision) *Answer {
	t.Helper()
	plan, err := weir.Policy{Name: "slack-alerts", Limits: []weir.Limit{
		{Name: "channel", Max: 100, Window: 30 * time.Minute},
		{Name: "category", Max: 10, Window: 30 * time.Minute, MinInterval: 3 * time.Second, By: []string{"category"}},
	}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	d.At = instant
	return &Answer{Compiled: plan, Key: weir.K("errors"), N: 1, Decision: d, States: []weir.LimitState{
		{Name: "channel", Max: 100, Window: 30 * time.Minute, Used: 63, Remaining: 37,
			NextAfter: 10 * time.Second, ResetAfter: 29 * time.Minute},
		{Name: "category", Max: 10, Window: 30 * time.Minute, MinInterval: 3 * time.Second, Used: 10, Remaining: 0,
			RetryAfter: 411_999_001 * time.Microsecond, NextAfter: 411_999_001 * time.Microsecond,
			ResetAfter: 1702 * time.Second},
	}}
}

func TestAppendJSON(t *testing.T) {
	a := slack(t, weir.Decision{Remaining: 0, RetryAfter: 411_999_001 * time.Microsecond,
		ResetAfter: 1702 * time.Second, Limit: "category"})
	want := `{"allowed":false,"policy":"slack-alerts","granted":0,"remaining":0,` +
		`"retry_after_ms":412000,"retry_after_us":411999001,"reset_after_ms":1702000,` +
		`"at":"2026-11-20T13:07:31.000005Z","limit":"category",` +
		`"why":"10 of 10 used in the last 30m for category=errors; room again in 6m52s","limits":[` +
		`{"name":"channel","key":{},"max":100,"used":63,"remaining":37,"window_ms":1800000,"kind":"rolling",` +
		`"retry_after_ms":0,"next_ms":10000,"reset_after_ms":1740000},` +
		`{"name":"category","key":{"category":"errors"},"max":10,"used":10,"remaining":0,"window_ms":1800000,` +
		`"min_interval_ms":3000,"kind":"rolling","retry_after_ms":412000,"next_ms":412000,"reset_after_ms":1702000}]}`
	if got := string(a.AppendJSON(nil, nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAppendJSONMarks: a mark is present only when it is set. Unknown states are an empty list.
func TestAppendJSONMarks(t *testing.T) {
	for _, c := range []struct {
		d    weir.Decision
		want string
	}{
		{weir.Decision{Limit: "channel", RetryAfter: time.Second}, `"limit":"channel","why":`},
		{weir.Decision{Limit: "channel", RetryAfter: time.Second, Cached: true}, `"limit":"channel","cached":true,"why":`},
		{weir.Decision{Allowed: true, Granted: 1, Degraded: true}, `"limit":"","degraded":true,"why":`},
	} {
		a := slack(t, c.d)
		a.States = make([]weir.LimitState, 2)
		if got := string(a.AppendJSON(nil, nil)); !strings.Contains(got, c.want) || !strings.HasSuffix(got, `"limits":[]}`) {
			t.Errorf("%+v: got %s, want %s and no limits", c.d, got, c.want)
		}
	}
}

// TestAppendJSONOfWaits: the start is there for a request that may wait, also without a wait. Only a
// new grant has its instant, and only a limit with units ahead has their number.
func TestAppendJSONOfWaits(t *testing.T) {
	at := time.Date(2026, 11, 20, 13, 7, 31, 5000, time.UTC)
	for _, c := range []struct {
		waits bool
		d     weir.Decision
		want  string
	}{
		{false, weir.Decision{At: at, Allowed: true}, `"at":"2026-11-20T13:07:31.000005Z","limit":""`},
		{true, weir.Decision{At: at, Allowed: true}, `"at":"2026-11-20T13:07:31.000005Z","start_after_ms":0,"start_at":"2026-11-20T13:07:31.000005Z","limit":""`},
		{true, weir.Decision{At: at, Allowed: true, StartAfter: 1200 * time.Microsecond}, `"start_after_ms":2,"start_at":"2026-11-20T13:07:31.001205Z","limit":""`},
		{true, weir.Decision{At: at, Allowed: true, Replayed: true, StartAfter: time.Second}, `"start_after_ms":1000,"limit":"","replayed":true`},
		{true, weir.Decision{At: at}, `"start_after_ms":0,"limit":""`},
	} {
		a := slack(t, c.d)
		a.Waits = c.waits
		if got := string(a.AppendJSON(nil, nil)); !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %s, want %s in it", c.d, got, c.want)
		}
	}
	a := slack(t, weir.Decision{At: at})
	a.States[0].Ahead, a.States[0].LastAhead = 3, 4200*time.Millisecond+1
	if got := string(a.AppendJSON(nil, nil)); strings.Count(got, `"ahead":3,"last_ahead_ms":4201}`) != 1 || strings.Count(got, "ahead") != 2 {
		t.Errorf("got %s, want the units ahead of the first limit", got)
	}
}

// TestKnown: states without a name are passed over, and places are those of the rules.
func TestKnown(t *testing.T) {
	a := Answer{States: []weir.LimitState{{Name: "a"}, {}, {Name: "c"}, {Name: "d"}}}
	var places []int
	for i, s := range a.Known() {
		if s != &a.States[i] {
			t.Errorf("place %d: got another state, %+v", i, s)
		}
		places = append(places, i)
		if s.Name == "c" {
			break
		}
	}
	if !slices.Equal(places, []int{0, 2}) {
		t.Errorf("got places %v until c, want 0 and 2", places)
	}
}

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
}

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		d                 time.Duration
		micros, ms, whole int64
	}{
		{0, 0, 0, 0},
		{weir.Never, -1, -1, -1},
		{time.Microsecond, 1, 1, 1},
		{time.Millisecond, 1000, 1, 1},
		{time.Second, 1_000_000, 1000, 1},
		{time.Second + time.Microsecond, 1_000_001, 1001, 2},
		{400 * 24 * time.Hour, 34_560_000_000_000, 34_560_000_000, 34_560_000},
		{weir.Never - 1, 9_223_372_036_854_776, 9_223_372_036_855, 9_223_372_037}, // a sum would overflow
	} {
		if us, ms, s := Micros(c.d), Millis(c.d), Seconds(c.d); us != c.micros || ms != c.ms || s != c.whole {
			t.Errorf("%v: got %d us, %d ms, %d s; want %d, %d, %d", c.d, us, ms, s, c.micros, c.ms, c.whole)
		}
	}
}

// A string must read back as encoding/json's own encoding does.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "errors", "a\"b\\c", "\x00\x1f\x7f\u0080\u009f", "\xff\xed\xa0\x80", "<script>&", "\u2028\u2029", "né\U0001f600", "\u202e\u2066\u200b\U000e0041"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		for _, r := range string(b) {
			if !unicode.IsPrint(r) || r == '<' || r == '>' || r == '&' {
				t.Errorf("%q: %U stands for itself in %s", s, r, b)
			}
		}
		ref, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		decode(t, b, &got)
		decode(t, ref, &want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q from %s, want %q", s, got, b, want)
		}
	})
}

func TestLogged(t *testing.T) {
	err := fmt.Errorf("under weir1:ann: %w", weir.ErrUnreadable)
	if got := Logged(err); strings.Contains(got, "ann") || !strings.HasPrefix(got, weir.ErrUnreadable.Error()) {
		t.Errorf("%s; want no key, and what is wrong", got)
	}
	if got := Logged(errors.New("connection refused")); got != "connection refused" {
		t.Errorf("%s; want it as it is", got)
	}
}

func TestIsBadInput(t *testing.T) {
	for err, want := range map[error]bool{
		weir.ErrInput: true, engine.Input("key", "too long"): true, &weir.PolicyError{}: true,
		weir.ErrOverflow: true,
		nil:              false, weir.ErrFull: false, context.Canceled: false, errors.New("weir: bad key"): false,
	} {
		if got := IsBadInput(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
		if got := err != nil && IsBadInput(fmt.Errorf("about that: %w", err)); got != want {
			t.Errorf("%v, wrapped: got %v, want %v", err, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"plain\ttext\n":            "plain\ttext\n",
		"Grüße, 東京 😀 …":            "Grüße, 東京 😀 …",
		"\x1b[31mred":              `\u001b[31mred`,
		"over\rwritten\b\x00\x7f":  `over\u000dwritten\u0008\u0000\u007f`,
		"\u009b31m":                `\u009b31m`,
		"a\u202eb\u2066c\u200fd":   `a\u202eb\u2066c\u200fd`,
		"zero\u200bwidth\ufeff":    `zero\u200bwidth\ufeff`,
		"\u2028\u2029":             `\u2028\u2029`,
		"\U000e0041tag":            `\udb40\udc41tag`,
		"\xff\xc3":                 `\ufffd\ufffd`,
		"half a sequence \xe2\x80": `half a sequence \ufffd\ufffd`,
		"\u00a0":                   `\u00a0`,
		"at the end \x1b":          `at the end \u001b`,
	} {
		if got := string(Printable([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// JSON goes on meaning the same, and nothing in it acts in a terminal.
func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b\u202e\U000e0041\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		plain, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]string
		json.Unmarshal(plain, &before)
		made := Printable(bytes.Clone(plain))
		if err := json.Unmarshal(made, &after); err != nil {
			t.Fatalf("%q: %v", made, err)
		}
		for k, v := range before {
			if after[k] != v {
				t.Errorf("%q became %q", before, after)
			}
		}
		if again := Printable(made); !bytes.Equal(again, made) {
			t.Errorf("%q is not left alone: %q", made, again)
		}
	})
}

func TestWaitRoundsUp(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{time.Microsecond, "1µs"},
		{999 * time.Microsecond, "999µs"},
		{411_001 * time.Microsecond, "412ms"},
		{999_001 * time.Microsecond, "1s"},
		{1_700_001 * time.Microsecond, "1.8s"},
		{9_950 * time.Millisecond, "10s"},
		{10_000_001 * time.Microsecond, "11s"},
		{59_999 * time.Millisecond, "1m"},
		{411_999_001 * time.Microsecond, "6m52s"},
		{30 * time.Minute, "30m"},
		{59*time.Minute + 59*time.Second + time.Microsecond, "1h"},
		{5*time.Hour + 11*time.Minute + time.Second, "5h12m"},
		{24 * time.Hour, "24h"},
		{30*time.Hour + time.Second, "30h1m"},
		{47*time.Hour + 59*time.Minute + time.Second, "2d"},
		{3*day + 3*time.Hour + time.Second, "3d4h"},
		{400 * day, "400d"},
	} {
		if got := Wait(c.d); got != c.want {
			t.Errorf("Wait(%v) = %s, want %s", c.d, got, c.want)
		}
	}
}

func TestAgoRoundsDown(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                              "0s",
		1_299_999 * time.Microsecond:   "1.2s",
		411_999_999 * time.Microsecond: "6m51s",
	} {
		if got := Ago(d); got != want {
			t.Errorf("Ago(%v) = %s, want %s", d, got, want)
		}
	}
}

// What Wait shows, read back, is never below the wait and at most one step above.
func TestWaitReadsBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		d := time.Duration(rnd.Int64N(1<<rnd.IntN(46)+1)) * time.Microsecond
		shown := Wait(d)
		got := readBack(t, shown)
		if got < d || got-d >= precision(d) {
			t.Fatalf("%v shown as %s, which is %v: want at least the wait and less than %v more", d, shown, got, precision(d))
		}
	}
}

// Exactly loses nothing.
func TestExactlyReadsBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		d := time.Duration(rnd.Int64N(1<<rnd.IntN(46)+1)) * time.Microsecond
		if shown := Exactly(d); readBack(t, shown) != d {
			t.Fatalf("%v shown as %s", d, shown)
		}
	}
}

// readBack parses a shown duration; only days are unknown to time.ParseDuration.
func readBack(t *testing.T, shown string) time.Duration {
	t.Helper()
	var total time.Duration
	if days, rest, ok := strings.Cut(shown, "d"); ok {
		duration, err := time.ParseDuration(days + "h")
		if err != nil {
			t.Fatal(err)
		}
		total, shown = 24*duration, rest
	}
	if shown == "" {
		return total
	}
	duration, err := time.ParseDuration(shown)
	if err != nil {
		t.Fatal(err)
	}
	return total + duration
}

func TestShown(t *testing.T) {
	for _, c := range []struct{ v, want string }{
		{"42", "42"},
		{"2001:db8::/64", "2001:db8::/64"},
		{"ann@example.com", "ann@example.com"},
		{"", `""`},
		{"a b", `"a b"`},
		{"a=b, c", `"a=b, c"`},
		{"\x1b[31mred\r\n", `"\x1b[31mred\r\n"`},
		{"\u202ereversed", `"\u202ereversed"`},
		{"\xff", `"\xff"`},
		{"né", `"né"`},
		{strings.Repeat("x", 65), `"` + strings.Repeat("x", 64) + `"…`},
		{strings.Repeat("x", 63) + "é", `"` + strings.Repeat("x", 63) + `"…`},
	} {
		if got := Shown(c.v); got != c.want {
			t.Errorf("Shown(%q) = %s, want %s", c.v, got, c.want)
		}
	}
}
