package resp

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/inline"
	"github.com/weirlimit/weir/internal/enforce"
)

// TestPipelinesOfInlinePolicies: the decisions of a pipeline have policies of their own, also if they
// are made in one call and the text of the commands is overwritten by later ones.
func TestPipelinesOfInlinePolicies(t *testing.T) {
	e := weir.NewMemory()
	s := newTestServerOn(t, e, nil, func(c *Config) {
		c.Waits, c.Inline = true, inline.New(e, func(_, _ *enforce.Rule) {})
	})
	first := array("WEIR.CHECK", "a", "user=ann", "LIMITS", "1 per day per user")
	other := array("WEIR.CHECK", "a", "user=ann", "2", "LIMITS", "1 per day per user", "LIMITS", "7 per hour")
	long := array("WEIR.RECORD", "", "user=bob", "3", "LIMITS", "5 per day per user")
	got := say(t, s, strings.Repeat(first, 2)+other+long+array("WEIR.CHECK", "push", "teacher=1"))
	for i, want := range []string{":1\r\n:1\r\n:0\r\n", ":0\r\n:0\r\n:0\r\n", ":0\r\n:0\r\n:1\r\n", ":1\r\n:3\r\n:2\r\n", ":1\r\n:1\r\n:9\r\n"} {
		answers := strings.Split(got, "*9\r\n")[1:]
		if len(answers) != 5 || !strings.HasPrefix(answers[i], want) {
			t.Fatalf("answer %d of %q, want it to begin with %q", i, got, want)
		}
	}
	if got := say(t, s, first); !strings.HasPrefix(got, "*9\r\n:0\r\n") {
		t.Errorf("the same again: %q, want a denial", got)
	}
}
