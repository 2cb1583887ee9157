package resp

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// wantOnTheWire sends commands to a new server, with a clock that stands still, and compares
// the answers byte by byte. AT stands for the time.
func wantOnTheWire(t *testing.T, steps [][2]string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, at := newTestServer(t), fmt.Sprint(time.Now().UnixMicro())
		for i, step := range steps {
			ask, want := strings.ReplaceAll(step[0], "AT", at), strings.NewReplacer("AT", at, " ", "\r\n").Replace(step[1])+"\r\n"
			if got := say(t, s, words(ask)); got != want {
				t.Errorf("step %d, %s:\n%q, want\n%q", i, ask, got, want)
			}
		}
	})
}

func TestDecisionsOnTheWire(t *testing.T) {
	wantOnTheWire(t, [][2]string{
		{"WEIR.PEEK push teacher=42", "*9 :1 :1 :10 :0 :0 $0  :AT :0 :0"},
		{"WEIR.CHECK push teacher=42", "*9 :1 :1 :9 :0 :60000 $0  :AT :0 :0"},
		{"weir.check push teacher=42 9", "*9 :1 :9 :0 :60000 :60000 $0  :AT :0 :0"},
		{"WEIR.CHECK push teacher=42", "*9 :0 :0 :0 :60000 :60000 $5 limit :AT :0 :0"},
		{"WEIR.CHECK push teacher=43 11", "*9 :0 :0 :10 :-1 :0 $5 limit :AT :0 :0"},
		{"WEIR.COUNT push teacher=42 1", ":10"},
		{"WEIR.COUNT push teacher=42 60000 LIMIT limit", ":10"},
		{"weir.count push teacher=43 60000 limit limit", ":0"},
		{"WEIR.RECORD push teacher=42 3", "*9 :1 :3 :-3 :60000 :60000 $0  :AT :0 :0"},
		{"WEIR.REFUND push teacher=42 AT 5", ":5"},
		{"WEIR.REFUND push teacher=42 AT", ":1"},
		{"WEIR.REFUND push teacher=42 1000000", ":0"},
		{"WEIR.REFUND push teacher=42 9007199254740991", ":0"}, // weir.MaxInstant
		{"WEIR.REFUND push teacher=42 AT 2 ID r", ":2"},
		{"WEIR.REFUND push teacher=42 AT 2 ID r", ":2"},
		{"WEIR.PEEK push teacher=42 0", "*9 :1 :0 :5 :0 :60000 $0  :AT :0 :0"},
		{"WEIR.RESET push teacher=42", "+OK"},
		{"WEIR.CHECK push teacher=42 0", "*9 :1 :0 :10 :0 :0 $0  :AT :0 :0"},
		{"WEIR.CHECK wide user=a tenant=x 2", "*9 :1 :2 :0 :3600000 :3600000 $0  :AT :0 :0"},
		{"WEIR.CHECK wide tenant=x user=a", "*9 :0 :0 :0 :3600000 :3600000 $4 user :AT :0 :0"},
		{"WEIR.CHECK wide tenant=x user=b=c", "*9 :1 :1 :1 :0 :3600000 $0  :AT :0 :0"},
		{"WEIR.COUNT wide tenant=x user=b=c 1000 LIMIT tenant", ":3"},
		{"WEIR.COUNT wide user=b=c tenant=x 1000 LIMIT user", ":1"},
		{"WEIR.COUNT one 86400000", ":0"},
		{"WEIR.CHECK one", "*9 :1 :1 :0 :86400000 :86400000 $0  :AT :0 :0"},
		{"WEIR.CHECK one 1", "*9 :0 :0 :0 :86400000 :86400000 $5 limit :AT :0 :0"},
	})
}

// TestDecisionElements: the last elements mark a decision of a fallback, and a denial that an
// engine repeats from memory.
func TestDecisionElements(t *testing.T) {
	d := weir.Decision{Limit: "l", RetryAfter: weir.Never, ResetAfter: time.Microsecond, At: time.UnixMicro(7), Degraded: true, Cached: true}
	want := "*9 :0 :0 :0 :-1 :1 $1 l :7 :1 :1 "
	if got := strings.ReplaceAll(string(appendDecision(nil, &d, 0)), "\r\n", " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBadInputChargesNothing: an error names the problem and charges nothing (R14).
func TestBadInputChargesNothing(t *testing.T) {
	s := newTestServer(t)
	long := strings.Repeat("x", weir.MaxValueBytes+1)
	cases := []struct{ ask, want string }{
		{"WEIR.CHECK", "wrong number of arguments for 'weir.check' command; write WEIR.CHECK policy dimension=value … [n] [ID id]"},
		{"WEIR.REFUND", "write WEIR.REFUND policy dimension=value … at_us [n] [ID id]"},
		{"WEIR.CHECK psh teacher=1", `no policy "psh"; did you mean "push"?; WEIR.POLICIES lists all policies`},
		{"WEIR.CHECK push", `needs a value for "teacher"`},
		{"WEIR.CHECK push 3", `needs a value for "teacher"`},
		{"WEIR.CHECK push user=1", `no dimension "user"`},
		{"WEIR.CHECK push teacher=1 user=1", `no dimension "user"`},
		{"WEIR.CHECK push teacher=1 teacher=2", "given twice"},
		{"WEIR.CHECK wide tenant=1 tenant=2", "given twice"},
		{"WEIR.CHECK push 42 teacher=1", "42 has no ="},
		{"WEIR.CHECK push teacher=1 2 3", "2 has no ="},
		{"WEIR.CHECK push teacher=1 -1", "n must be a whole number, 0 to 2251799813685247"},
		{"WEIR.CHECK push teacher=1 99999999999999999999", "n must be"},
		{"WEIR.CHECK push teacher=" + long, "1025 bytes long"},
		{"WEIR.REFUND push teacher=1", "instant of the grant is missing"},
		{"WEIR.REFUND push teacher=1 yesterday", "instant of the grant must be"},
		{"WEIR.REFUND push teacher=1 9007199254740992", "instant of the grant must be a whole number, 0 to 9007199254740991"},
		{"WEIR.CHECK push teacher=1 2251799813685248", "n must be"},
		{"WEIR.COUNT push teacher=1 2251799813685248", "last_ms must be"},
		{"WEIR.REFUND push teacher=1 1 2 3", "1 has no ="},
		{"WEIR.COUNT", "write WEIR.COUNT policy dimension=value … last_ms [LIMIT name]"},
		{"WEIR.COUNT push teacher=1", "last_ms is missing: the span to count, 1 to the window of the limit in milliseconds"},
		{"WEIR.COUNT push teacher=1 1 2", "1 has no ="},
		{"WEIR.COUNT push teacher=1 1 LIMIT", "1 has no ="},
		{"WEIR.COUNT push teacher=1 1 LIMIT ", "LIMIT must be the name of a limit; leave it out"},
		{"WEIR.COUNT push teacher=1 1 LIMIT limit LIMIT limit", "1 has no ="},
		{"WEIR.COUNT push teacher=1 1 ID a", "1 has no ="},
		{"WEIR.CHECK push teacher=1 1 LIMIT limit", "1 has no ="},
		{"WEIR.RESET push teacher=1 7", "7 has no ="},
		{"WEIR.RESET one 7", "no dimension: the policy counts all callers together"},
		{"WEIR.CHECK push teacher=1 ID ", "an ID has 1 to 128 bytes"},
		{"WEIR.CHECK push teacher=1 ID " + strings.Repeat("x", weir.MaxIDBytes+1), "an ID has 1 to 128 bytes"},
		{"WEIR.CHECK push teacher=1 ID", "n must be a whole number"},
		{"WEIR.CHECK push teacher=1 ID a 1", "ID has no ="},
		{"WEIR.CHECK push teacher=1 ID a ID b", "ID has no ="},
		{"WEIR.CHECK push teacher=1 TTL 5", "TTL has no ="},
		{"WEIR.PEEK push teacher=1 ID a", "ID has no ="},
		{"WEIR.RESERVE push teacher=1 ID a TTL 5 3", "ID has no ="},
		{"WEIR.RESERVE push teacher=1 TTL ", "TTL, in milliseconds, must be a whole number"},
		{"WEIR.RESERVE push teacher=1 TTL 0", "TTL must be 1 or more"},
		{"WEIR.RESERVE push teacher=1 TTL 60001", "TTL must be 1 to 60000: the longest window of push"},
		{"WEIR.RESERVE", "write WEIR.RESERVE policy dimension=value … [n] [TTL milliseconds] [ID id]"},
		{"WEIR.SETTLE", "write WEIR.SETTLE reservation [actual]"},
		{"WEIR.SETTLE x 1 2", "write WEIR.SETTLE reservation [actual]"},
		{"WEIR.SETTLE x", "no such reservation"},
		{"WEIR.EXTEND", "write WEIR.EXTEND reservation"},
		{"WEIR.EXTEND x", "no such reservation"},
		{"WEIR.SETTLE x -1", "the units that were used must be a whole number"},
		{"WEIR.RELEASE", "write WEIR.RELEASE reservation"},
		{"WEIR.RELEASE x", "no such reservation"},
		{"GET k", "unknown command GET; Weir makes decisions"},
		{"EVAL.something.longer.than.all 1", "unknown command"},
		{"SELECT 1", "out of range"},
		{"CLIENT KILL 1", "unknown subcommand"},
		{"CLIENT TRACKING", "unknown subcommand"},
		{"CLIENT TRACKING MAYBE", "unknown subcommand"},
		{"CLIENT SETNAME a\x00", "cannot contain"},
		{"CLIENT SETNAME " + strings.Repeat("n", 257), "at most 256"},
		{"CONFIG SET save 1", "CONFIG has GET"},
		{"HELLO 3 WHAT", "Syntax error in HELLO"},
		{"AUTH secret", "requires no token"},
	}
	for i, c := range cases {
		got := say(t, s, array(strings.Split(c.ask, " ")...))
		if !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, c.want) || strings.Count(got, "\r\n") != 1 {
			t.Errorf("%.60s: %q, want an error with %q", c.ask, got, c.want)
		}
		if n := s.Counts.Rejected.Load(); n != int64(i+1) {
			t.Fatalf("%.60s: %d commands are counted as rejected, want %d", c.ask, n, i+1)
		}
	}
	if got := say(t, s, array("WEIR.PEEK", "push", "teacher=1")); !strings.Contains(got, ":10\r\n") {
		t.Errorf("after bad input: %q, want all of 10 left", got)
	}
	if got := say(t, s, array("HELLO", "4")); !strings.HasPrefix(got, "-NOPROTO ") {
		t.Errorf("HELLO 4: %q", got)
	}
	if got := say(t, s, array("EVIL\r\n+OK")); strings.Count(got, "\n") != 1 {
		t.Errorf("an answer of several lines: %q", got)
	}
}

// TestGreetingsAreAnswered covers the commands that clients send when they connect.
func TestGreetingsAreAnswered(t *testing.T) {
	s := newTestServer(t)
	for _, c := range []struct{ ask, want string }{
		{"PING", "+PONG\r\n"},
		{"ping hello", "$5\r\nhello\r\n"},
		{"ECHO hello", "$5\r\nhello\r\n"},
		{"SELECT 0", "+OK\r\n"},
		{"CLIENT ID", ":1\r\n"},
		{"CLIENT SETNAME app", "+OK\r\n"},
		{"CLIENT GETNAME", "$0\r\n\r\n"}, // of another session
		{"CLIENT SETINFO LIB-NAME x", "+OK\r\n"},
		{"CLIENT TRACKING ON OPTIN", "+OK\r\n"},
		{"CLIENT TRACKING off", "+OK\r\n"},
		{"CLIENT INFO", "$18\r\nid=1 name= resp=2\n\r\n"},
		{"CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
		{"CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"},
		{"CONFIG GET maxmemory", "*0\r\n"},
		{"RESET", "+RESET\r\n"},
		{"QUIT", "+OK\r\n"},
		{"HELLO", "*14\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n" +
			"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"},
	} {
		if got := say(t, s, array(strings.Split(c.ask, " ")...)); got != c.want {
			t.Errorf("%s: %q, want %q", c.ask, got, c.want)
		}
	}
	got := say(t, s, array("INFO"))
	for _, want := range []string{"\nloading:0\r", "\nredis_version:7.4.0\r", "\nweir_version:1.2.3\r", "\nrole:master\r"} {
		if !strings.Contains(got, want) {
			t.Errorf("INFO: %q lacks %q", got, want)
		}
	}
	if got := say(t, s, array("CLIENT", "SETNAME", "app")+array("CLIENT", "GETNAME")); got != "+OK\r\n$3\r\napp\r\n" {
		t.Errorf("a name: %q", got)
	}
}

func TestRESP3(t *testing.T) {
	s := newTestServer(t)
	got := say(t, s, array("HELLO", "3", "SETNAME", "app")+array("CONFIG", "GET", "save")+array("CLIENT", "GETNAME"))
	want := `^%7\r\n\$6\r\nserver\r\n(?s:.*)proto\r\n:3\r\n(?s:.*)modules\r\n\*0\r\n%1\r\n\$4\r\nsave\r\n\$0\r\n\r\n\$3\r\napp\r\n$`
	if !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("%q, want %s", got, want)
	}
	if got := say(t, s, array("HELLO", "3")+array("HELLO", "2")+array("CONFIG", "GET", "save")); !strings.HasSuffix(got, "*2\r\n$4\r\nsave\r\n$0\r\n\r\n") {
		t.Errorf("back to RESP2: %q", got)
	}
}

func TestCommandsNeedThePassword(t *testing.T) {
	s := newTestServer(t, func(c *Config) {
		c.Token, c.Admin = secret(t, "secret-of-programs"), secret(t, "secret-of-operators")
	})
	c := session{server: s, id: 1, protocol: 2}
	hello := `%7`
	for i, step := range []struct{ ask, want string }{
		{"PING", "-NOAUTH "},
		{"WEIR.CHECK push teacher=1", "-NOAUTH "},
		{"NOSUCH", "-NOAUTH "},
		{"HELLO 3", "-NOAUTH "},
		{"AUTH wrong", "-WRONGPASS "},
		{"AUTH admin secret-of-programs", "-WRONGPASS "},
		{"HELLO 3 AUTH default wrong", "-WRONGPASS "},
		{"PING", "-NOAUTH "},
		{"AUTH secret-of-operators", "+OK"},
		{"WEIR.RESET push teacher=1", "-NOAUTH Authentication required. Send AUTH with the token of programs first; that of operators alone opens no command"},
		{"RESET", "+RESET"},
		{"AUTH secret-of-programs", "+OK"},
		{"PING", "+PONG"},
		{"AUTH wrong", "-WRONGPASS "},
		{"PING", "+PONG"}, // as in Redis, earlier rights stay
		{"RESET", "+RESET"},
		{"PING", "-NOAUTH "},
		{"HELLO 3 AUTH default secret-of-programs SETNAME app", hello},
		{"WEIR.CHECK push teacher=1", "*9"},
		{"WEIR.RESET push teacher=1", "-NOPERM "},
		{"AUTH secret-of-operators", "+OK"},
		{"WEIR.RESET push teacher=1", "+OK"},
		{"RESET", "+RESET"},
		{"AUTH default secret-of-programs", "+OK"},
		{"HELLO 2", "*14"},
		{"QUIT", "+OK"},
	} {
		c.out = c.out[:0]
		if _, err := c.answer(array(strings.Fields(step.ask)...)); err != nil || !strings.HasPrefix(string(c.out), step.want) {
			t.Errorf("step %d, %s: %q, %v; want %q", i, step.ask, c.out, err, step.want)
		}
	}
	if !c.ended {
		t.Error("QUIT did not end the session")
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

// WEIR.POLICIES lists each policy with its dimensions.
func TestPoliciesAreListedWithDimensions(t *testing.T) {
	want := "*4\r\n*2\r\n$3\r\nbig\r\n$1\r\nk\r\n*1\r\n$3\r\none\r\n*2\r\n$4\r\npush\r\n$7\r\nteacher\r\n" +
		"*3\r\n$4\r\nwide\r\n$6\r\ntenant\r\n$4\r\nuser\r\n"
	if got := say(t, newTestServer(t), array("WEIR.POLICIES")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

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

// TestReservationNeedsTheStoresIdentity: without it nothing is charged.
func TestReservationNeedsTheStoresIdentity(t *testing.T) {
	for _, waits := range []bool{false, true} {
		s := newTestServer(t, func(c *Config) {
			c.Waits = waits
			c.Reservations = must.Get(reserve.New(c.Policies, weir.NewMemory(), "", func(context.Context) (string, error) { return "", weir.ErrUnavailable }))(t)
		})
		got := say(t, s, strings.Repeat(words("WEIR.RESERVE push teacher=1"), 2)+words("WEIR.PEEK push teacher=1 10"))
		if strings.Count(got, "-UNAVAILABLE ") != 2 || !strings.Contains(got, "\r\n*9\r\n:1\r\n:10\r\n:10\r\n:0\r\n") {
			t.Errorf("two attempts, and room for 10: %q", got)
		}
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
