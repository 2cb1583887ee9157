package resp

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
)

// words returns the arguments of a command, which are separated by spaces.
func words(command string) string { return array(strings.Fields(command)...) }

// TestRepeatedIDIsChargedOnce: an operation with an ID is charged once, and its second
// answer is marked as a repeat.
func TestRepeatedIDIsChargedOnce(t *testing.T) {
	wantOnTheWire(t, [][2]string{
		{"WEIR.CHECK push teacher=42 3 ID order-1", "*10 :1 :3 :7 :0 :60000 $0  :AT :0 :0 :0"},
		{"WEIR.CHECK push teacher=42 3 id order-1", "*10 :1 :3 :7 :0 :60000 $0  :AT :0 :0 :1"},
		{"WEIR.CHECK push teacher=42 ID ID", "*10 :1 :1 :6 :0 :60000 $0  :AT :0 :0 :0"},
		{"WEIR.CHECK push teacher=42 ID a=b", "*10 :1 :1 :5 :0 :60000 $0  :AT :0 :0 :0"},
		{"WEIR.CHECK push teacher=42 ID 7", "*10 :1 :1 :4 :0 :60000 $0  :AT :0 :0 :0"},
		{"WEIR.RECORD push teacher=42 2 ID bill", "*10 :1 :2 :2 :0 :60000 $0  :AT :0 :0 :0"},
		{"WEIR.RECORD push teacher=42 2 ID bill", "*10 :1 :2 :2 :0 :60000 $0  :AT :0 :0 :1"},
		{"WEIR.CHECK push teacher=42 3 ID late", "*10 :0 :0 :2 :60000 :60000 $5 limit :AT :0 :0 :0"},
		{"WEIR.CHECK push teacher=42 3 ID late", "*10 :0 :0 :2 :60000 :60000 $5 limit :AT :0 :0 :0"},
		{"WEIR.CHECK one ID once", "*10 :1 :1 :0 :86400000 :86400000 $0  :AT :0 :0 :0"},
		{"WEIR.PEEK push teacher=42", "*9 :1 :1 :2 :0 :60000 $0  :AT :0 :0"},
		{"WEIR.PEEK push teacher=ID", "*9 :1 :1 :10 :0 :0 $0  :AT :0 :0"},
	})
}

// TestReservationIsSettledOnce: an estimate is granted, and settled once with the units
// really used.
func TestReservationIsSettledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServerOn(t, weir.NewMemory(), []weir.Policy{
			{Name: "render", Limits: []weir.Limit{{Name: "running", Kind: weir.Concurrency, Max: 1, MaxHold: 30 * time.Second}}}})
		now := time.Now()
		reserve := func(ask, want string, expires time.Duration) (id string) {
			t.Helper()
			got := say(t, s, words(ask))
			parts := strings.Split(got, "\r\n")
			if len(parts) < 14 {
				t.Fatalf("%s: %q", ask, got)
			}
			id, until := parts[12], parts[13]
			wantUntil := ":0"
			if expires > 0 {
				wantUntil = ":" + strconv.FormatInt(now.Add(expires).UnixMicro(), 10)
			}
			if !strings.HasPrefix(got, strings.ReplaceAll(want, " ", "\r\n")) || until != wantUntil || (id == "") != (expires == 0) {
				t.Errorf("%s: %q, want %q, an id and %s", ask, got, want, wantUntil)
			}
			return id
		}
		settle := func(ask, want string) {
			t.Helper()
			got := say(t, s, words(ask))
			if want[0] == '\\' {
				want = strings.ReplaceAll(want, " ", "\r\n")
			}
			if !regexp.MustCompile("^" + want + "\r\n$").MatchString(got) {
				t.Errorf("%s: %q, want %s", ask, got, want)
			}
		}
		less := reserve("WEIR.RESERVE push teacher=42 6", "*11 :1 :6 :4 :60000 :60000", time.Minute)
		reserve("WEIR.RESERVE push teacher=42 6", "*11 :0 :0 :4 :60000 :60000", 0)
		settle("WEIR.SETTLE "+less+" 2", "\\*4 :6 :2 :4 :0")
		settle("WEIR.SETTLE "+less+" 2", "\\*4 :6 :2 :4 :0") // a retry
		settle("WEIR.SETTLE "+less+" 3", "-SETTLED .*settled.*")
		more := reserve("weir.reserve push teacher=42 1 ttl 500", "*11 :1 :1 :7 :0 :60000", 500*time.Millisecond)
		settle("WEIR.SETTLE "+more+" 3", "\\*4 :1 :3 :0 :2")
		none := reserve("WEIR.RESERVE push teacher=42", "*11 :1 :1 :4 :0 :60000", time.Minute)
		settle("WEIR.RELEASE "+none, "\\*4 :1 :0 :1 :0")
		late := reserve("WEIR.RESERVE push teacher=42 1 TTL 500", "*11 :1 :1 :4 :0 :60000", 500*time.Millisecond)
		time.Sleep(500 * time.Millisecond)
		settle("WEIR.RELEASE "+late, "-EXPIRED .*stay as they were granted")
		settle("WEIR.RELEASE nosuch", "-ERR there is no such reservation: .*")
		settle("WEIR.PEEK push teacher=42", "\\*9 :1 :1 :4 (?s:.*)")
		all := reserve("WEIR.RESERVE push teacher=43 6", "*11 :1 :6 :4 :60000 :60000", time.Minute+500*time.Millisecond)
		settle("WEIR.EXTEND "+all, "-ERR .*no concurrency limit.*")
		settle("WEIR.SETTLE "+all, "\\*4 :6 :6 :0 :0")

		// A hold has its end as the last element, and another id after an extension.
		render := strings.Split(say(t, s, words("WEIR.RESERVE render")), "\r\n")
		if until := fmt.Sprintf(":%d", time.Now().Add(30*time.Second).UnixMicro()); render[0] != "*12" || render[14] != until {
			t.Errorf("a hold: %q, want the end %s", render, until)
		}
		settle("WEIR.RESERVE render", "\\*11 :0 :0 :0 (?s:.*)")
		time.Sleep(20 * time.Second)
		extended := strings.Split(say(t, s, words("WEIR.EXTEND "+render[12])), "\r\n")
		until := fmt.Sprintf(":%d", time.Now().Add(30*time.Second).UnixMicro())
		if extended[0] != "*3" || extended[3] != until || extended[4] != until {
			t.Errorf("extended: %q, want the end %s", extended, until)
		}
		time.Sleep(20 * time.Second)
		settle("WEIR.SETTLE "+extended[2], "\\*4 :1 :1 :0 :0")
		settle("WEIR.CHECK render", "\\*9 :1 :1 :0 (?s:.*)")
	})
}

// TestIDsAreOfOneOperation: an id of two operations is bad input, which charges nothing (R14).
func TestIDsAreOfOneOperation(t *testing.T) {
	s := newTestServer(t)
	if got := say(t, s, words("WEIR.CHECK push teacher=1 3 ID one")+words("WEIR.CHECK push teacher=1 4 ID one")); !strings.Contains(got, "-ERR ") || !strings.Contains(got, "each operation an id of its own") {
		t.Errorf("an id of two operations: %q", got)
	}
	if got := say(t, s, words("WEIR.PEEK push teacher=1")); !strings.Contains(got, "\r\n:7\r\n") {
		t.Errorf("after bad input: %q, want 7 of 10 left", got)
	}
}

// TestSettlementsKeepTheirPlace: a settlement waits for the decisions before it.
func TestSettlementsKeepTheirPlace(t *testing.T) {
	s := newTestServer(t, func(c *Config) { c.Waits = true })
	got := say(t, s, words("WEIR.RESERVE push teacher=42 10"))
	id := strings.Split(got, "\r\n")[12]
	got = say(t, s, words("WEIR.CHECK push teacher=42")+words("WEIR.RELEASE "+id)+words("WEIR.CHECK push teacher=42"))
	if first, second, _ := strings.Cut(got, "*4\r\n:10\r\n:0\r\n:10\r\n:0\r\n"); !strings.HasPrefix(first, "*9\r\n:0\r\n") || !strings.HasPrefix(second, "*9\r\n:1\r\n") {
		t.Errorf("denied, released, granted: %q", got)
	}
}

// TestBadInputBeforeLoad: bad input is named also while all places are taken.
func TestBadInputBeforeLoad(t *testing.T) {
	s := newTestServer(t, func(c *Config) { c.Capacity = calls.NewCapacity(0) })
	for command, want := range map[string]string{
		"WEIR.RESERVE push teacher=1 TTL 99999999999": "-ERR ",
		"WEIR.RESERVE push teacher=1 TTL 0":           "-ERR ",
		"WEIR.RESERVE push pupil=1":                   "-ERR ",
		"WEIR.SETTLE x y":                             "-ERR ",
		"WEIR.RESERVE push teacher=1":                 "-UNAVAILABLE ",
	} {
		if got := say(t, s, words(command)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
