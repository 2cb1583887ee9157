package resp

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/internal/testkit/txtar"
)

// TestDecisionElements: the last elements mark a decision of a fallback, and a denial that an
// engine repeats from memory.
func TestDecisionElements(t *testing.T) {
	d := weir.Decision{Limit: "l", RetryAfter: weir.Never, ResetAfter: time.Microsecond, At: time.UnixMicro(7), Degraded: true, Cached: true}
	want := "*9 :0 :0 :0 :-1 :1 $1 l :7 :1 :1 "
	if got := strings.ReplaceAll(string(appendDecision(nil, &d, 0)), "\r\n", " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

var repeated = regexp.MustCompile(`(\w)\*(\d+)`)

// TestWire compares answers with testdata/wire.txtar byte by byte, each file on a server of its
// own. Each command has a session of its own, except in files whose name begins with session.
func TestWire(t *testing.T) {
	content, err := os.ReadFile("testdata/wire.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range txtar.Parse(content).Files {
		t.Run(f.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(t, func(c *Config) {
					if strings.HasPrefix(f.Name, "session-with-passwords") {
						c.Token = secret(t, "secret-of-programs")
						c.Admin = secret(t, "secret-of-operators")
					}
					if f.Name == "busy" {
						c.Capacity = calls.NewCapacity(0)
					}
				})
				c := session{server: s, id: 1, protocol: 2}
				text := strings.ReplaceAll(string(f.Data), "$at", fmt.Sprint(time.Now().UnixMicro()))
				for line := range strings.Lines(text) {
					ask, want, found := strings.Cut(strings.TrimSuffix(line, "\n"), " -> ")
					switch {
					case !found:
					case ask == "rejected":
						if got := fmt.Sprint(s.Rejected.Load()); got != want {
							t.Errorf("%s commands are counted as rejected, want %s", got, want)
						}
					default:
						if !strings.HasPrefix(f.Name, "session") {
							c = session{server: s, id: 1, protocol: 2}
						}
						wantAnswerTo(t, &c, ask, want)
					}
				}
				if f.Name == "session-with-passwords-and-quit" && !c.ended {
					t.Error("QUIT did not end the session")
				}
			})
		})
	}
}

// wantAnswerTo sends a command and compares the answer with a pattern. An error has one line.
func wantAnswerTo(t *testing.T, c *session, ask, want string) {
	t.Helper()
	command := array(strings.Split(repeated.ReplaceAllStringFunc(ask, func(word string) string {
		n, err := strconv.Atoi(word[2:])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Repeat(word[:1], n)
	}), " ")...)
	c.out = c.out[:0]
	used, err := c.answer(command)
	got := strings.ReplaceAll(strings.TrimSuffix(string(c.out), "\r\n"), "\r\n", " ")
	pattern := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$"
	if err != nil || used != len(command) || !regexp.MustCompile(pattern).MatchString(got) || got[0] == '-' && strings.Count(string(c.out), "\r\n") != 1 {
		t.Errorf("%s: %d bytes used, %v\n got %q\nwant %q", ask, used, err, c.out, want)
	}
}

// TestOddNames: names that no text file can hold break no answer.
func TestOddNames(t *testing.T) {
	s := newTestServer(t)
	if got := say(t, s, array("CLIENT", "SETNAME", "a\x00")); got != "+OK\r\n" {
		t.Errorf("a name with NUL: %q", got)
	}
	if got := say(t, s, array("EVIL\r\n+OK")); strings.Count(got, "\n") != 1 {
		t.Errorf("an answer of several lines: %q", got)
	}
}

// TestCommandsAfterQuitAreIgnored: commands after QUIT are neither answered nor charged.
func TestCommandsAfterQuitAreIgnored(t *testing.T) {
	s := newTestServer(t)
	c := session{server: s, protocol: 2}
	c.answer(array("WEIR.CHECK", "one") + array("QUIT") + array("WEIR.CHECK", "big", "k=1"))
	if got := string(c.out); !strings.HasSuffix(got, "+OK\r\n") || strings.Count(got, "*9") != 1 {
		t.Errorf("%q, want one decision and OK", got)
	}
}

// TestDecisionsAllocateNothing: on the memory engine, decisions on known keys allocate
// nothing.
func TestDecisionsAllocateNothing(t *testing.T) {
	s := newTestServer(t)
	c := session{server: s, protocol: 2}
	pipeline := strings.Repeat(array("WEIR.CHECK", "big", "k=some.key")+array("WEIR.CHECK", "big", "k=other"), 8)
	run := func() {
		c.out = c.out[:0]
		if used, err := c.answer(pipeline); used != len(pipeline) || err != nil {
			t.Fatal(used, err)
		}
	}
	run()
	if n := testing.AllocsPerRun(200, run); n != 0 {
		t.Errorf("%v allocations for a pipeline of 16 decisions", n)
	}
	if strings.Contains(string(c.out), "-ERR") {
		t.Errorf("answers: %q", c.out)
	}
}

// words returns the arguments of a command, which are separated by spaces.
func words(command string) string { return array(strings.Fields(command)...) }

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
