package redistest

import (
	"os"
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
	_, err := launch(needs.Redis(t), t.TempDir(), []string{"--no-such-thing", "1"})
	if err == nil || !strings.Contains(err.Error(), "no-such-thing") {
		t.Errorf("unknown argument: got %v, want an error that shows it", err)
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
	second := &Server{Addr: first.Addr, program: first.program, dir: t.TempDir()}
	if err := second.run(); err == nil {
		second.Stop()
		t.Errorf("a second server on %s started: the first one answered for it", first.Addr)
	}
}
