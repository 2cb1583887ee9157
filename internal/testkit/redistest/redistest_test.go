package redistest

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestKilledServerComesBackEmpty(t *testing.T) {
	s := Start(t)
	s.Must(t, "SET", "a", "1")
	s.Kill()
	if reply, err := s.Do("PING"); err == nil {
		t.Fatalf("a killed server answers %q", reply)
	}
	s.Restart(t)
	if got := s.Must(t, "DBSIZE"); got != "0" {
		t.Errorf("after the restart: %s keys, want 0", got)
	}
}

func TestAOFSurvivesAKill(t *testing.T) {
	s := Start(t, AOF...)
	s.Must(t, "SET", "a", "1")
	s.Restart(t)
	if got := s.Must(t, "GET", "a"); got != "1" {
		t.Errorf("after the restart: got %q, want 1", got)
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

func TestFrozenServerAnswersWhenThawed(t *testing.T) {
	s := Start(t)
	s.Freeze(t)
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := c.Write([]byte("PING\r\n"))
		if err == nil {
			_, err = c.Read(make([]byte, 100))
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a frozen server answered (%v)", err)
	case <-time.After(100 * time.Millisecond):
	}
	s.Thaw(t)
	if err := <-answered; err != nil {
		t.Errorf("thawed: %v", err)
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

func TestReplicaAndPromotion(t *testing.T) {
	primary, replica := Start(t, "--requirepass", "p"), Start(t, "--requirepass", "q")
	primary.Must(t, "SET", "a", "1")
	replica.Follow(t, primary)
	if got := replica.Must(t, "GET", "a"); got != "1" {
		t.Errorf("on the replica: got %q, want 1", got)
	}
	if _, err := replica.Do("SET", "a", "2"); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("a write to the replica: got %v, want READONLY", err)
	}
	replica.Promote(t)
	replica.Must(t, "SET", "a", "2")
}

func TestSentinelPromotesTheReplica(t *testing.T) {
	t.Parallel()
	primary, replica := Start(t), Start(t)
	replica.Follow(t, primary)
	s := StartSentinel(t, primary, 1)
	s.AwaitPrimary(t, primary)
	primary.Kill()
	s.AwaitPrimary(t, replica)
	replica.Must(t, "SET", "a", "1")
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
