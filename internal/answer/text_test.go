package answer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

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
		n, err := time.ParseDuration(days + "h")
		if err != nil {
			t.Fatalf("%s: %v", shown, err)
		}
		total, shown = 24*n, rest
	}
	if shown == "" {
		return total
	}
	d, err := time.ParseDuration(shown)
	if err != nil {
		t.Fatalf("%s: %v", shown, err)
	}
	return total + d
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
