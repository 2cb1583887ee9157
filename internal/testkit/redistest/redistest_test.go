package redistest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestSharedIsOne(t *testing.T) {
	if a, b := Shared(t), Shared(t); a != b {
		t.Errorf("two calls of Shared gave %s and %s", a.Addr, b.Addr)
	}
}

func TestUnknownConfigurationIsShown(t *testing.T) {
	needs.Redis(t)
	_, err := launch(t.TempDir(), []string{"--no-such-thing", "1"})
	if err == nil || !strings.Contains(err.Error(), "no-such-thing") {
		t.Errorf("unknown argument: got %v, want an error that shows it", err)
	}
}

func TestPassword(t *testing.T) {
	s := Start(t, "--requirepass", "secret")
	s.Must(t, "SET", "a", "1")
	stranger := *s
	stranger.Password = ""
	_, err := stranger.Do("GET", "a")
	var rejected ReplyError
	if !errors.As(err, &rejected) || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without the password: got %v, want NOAUTH", err)
	}
}

func TestReplies(t *testing.T) {
	s := Start(t)
	for _, c := range []struct {
		command string
		want    string
	}{
		{"PING", "PONG"},
		{"INCR n", "1"},
		{"GET nothing", ""},
		{"ECHO ", ""},
		{"RPUSH l a b", "2"},
		{"LRANGE l 0 -1", "a\nb"},
		{"LRANGE l 5 6", ""},
	} {
		if got := s.Must(t, strings.Split(c.command, " ")...); got != c.want {
			t.Errorf("%s: got %q, want %q", c.command, got, c.want)
		}
	}
	if _, err := s.Do("NONSENSE"); err == nil || !strings.HasPrefix(err.Error(), "ERR unknown command") {
		t.Errorf("NONSENSE: got %v", err)
	}
	if got := s.List(t, "LRANGE", "l", "0", "-1"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the list l: got %q, want a and b", got)
	}
	if got := s.Info(t, "role"); got != "master" {
		t.Errorf("INFO role: got %q", got)
	}
}

// TestNoServerOutlivesItsTest looks for the process of a test that is over.
func TestNoServerOutlivesItsTest(t *testing.T) {
	needs.Redis(t)
	var s *Server
	t.Run("inner", func(t *testing.T) { s = Start(t) })
	if !s.ended() {
		t.Errorf("%s still runs", s.Addr)
	}
}

func TestAServerOnTheSamePortIsNotTakenForItsOwn(t *testing.T) {
	first := Start(t)
	second := &Server{Addr: first.Addr, dir: t.TempDir()}
	if err := second.run(); err == nil {
		second.Stop()
		t.Errorf("a second server on %s started: the first one answered for it", first.Addr)
	}
}
