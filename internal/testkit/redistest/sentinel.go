package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/listentest"
)

// SentinelName is the Sentinel's name of the primary.
const SentinelName = "weir"

// StartSentinel returns a Sentinel that watches the primary under SentinelName. It has
// the primary's version. After a second without a reply it promotes a replica. StartSentinel returns when the Sentinel
// lists so many replicas.
func StartSentinel(t testing.TB, primary *Server, replicas int) *Server {
	t.Helper()
	addr, err := listentest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: addr, program: primary.program, dir: t.TempDir()}
	file, err := s.writeSentinelConfig(primary)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(s.program, file, "--sentinel")
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.discard)
	if err := s.awaitReplicas(replicas); err != nil {
		t.Fatal(err)
	}
	return s
}

// writeSentinelConfig writes the Sentinel's state file.
func (s *Server) writeSentinelConfig(primary *Server) (file string, err error) {
	_, port := s.hostPort()
	primaryHost, primaryPort := primary.hostPort()
	text := fmt.Sprintf(`port %s
bind 127.0.0.1
dir %q
sentinel monitor %[3]s %[4]s %[5]s 1
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 5000
`, port, s.dir, SentinelName, primaryHost, primaryPort)
	if primary.Password != "" {
		text += fmt.Sprintf("sentinel auth-pass %s %s\n", SentinelName, primary.Password)
	}
	file = filepath.Join(s.dir, "sentinel.conf")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

func (s *Server) awaitReplicas(n int) error {
	return poll(func() error {
		text, err := s.Do("SENTINEL", "MASTER", SentinelName)
		if err != nil {
			return err
		}
		if !strings.Contains(text, fmt.Sprintf("\nnum-slaves\n%d\n", n)) {
			return fmt.Errorf("redistest: the Sentinel does not list %d replicas:\n%s", n, text)
		}
		return nil
	})
}

// AwaitPrimary returns when the Sentinel names the server as the primary.
func (s *Server) AwaitPrimary(t testing.TB, primary *Server) {
	t.Helper()
	host, port := primary.hostPort()
	err := poll(func() error {
		text, err := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelName)
		if err == nil && text != host+"\n"+port {
			err = errors.New("the primary is " + text)
		}
		return err
	})
	if err != nil {
		t.Fatalf("Sentinel %s should name %s: %v", s.Addr, primary.Addr, err)
	}
}
