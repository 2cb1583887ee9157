// Package redistest runs real Redis servers for tests: alone, with replicas, under a
// Sentinel or as a Cluster. Tests kill, freeze and restart them, and cut them off with a
// Proxy. A fake server would be faster and would prove less.
//
// Servers listen on loopback, on free ports, with directories of their own. No other test gets
// the port of a server that is down. They store nothing on disk unless AOF is set, and end with
// the test. Other servers are not touched.
package redistest

import (
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// patience bounds every wait for a server. Tests run on busy machines, and only failures
// wait this long.
const patience = time.Minute

// Server is a redis-server process of the test. Its methods may be called concurrently
// with traffic, but not with each other.
type Server struct {
	Addr     string // host:port
	Password string // requirepass, "" for none

	program string // path
	args    []string
	dir     string
	cmd     *exec.Cmd     // the running process, or the last one
	done    chan struct{} // closed when that process has ended
}

// AOF makes a server append every command to a file before it replies, so that a Restart
// keeps all data of its replies. It does not wait for the disk: only processes die here,
// never the machine.
var AOF = []string{"--appendonly", "yes", "--appendfsync", "no"}

// Start returns a running server with further arguments of redis-server, such as
// "--maxmemory", "2mb". It ends with the test. Without redis-server installed the
// test is skipped. The server has the version of this machine; see OnEachVersion.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, needs.Redis(t), args)
}

func start(t testing.TB, program string, args []string) *Server {
	t.Helper()
	s, err := launch(program, t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.discard)
	return s
}

// shared has the servers that the tests of a package share, by their programs.
var shared struct {
	mu      sync.Mutex
	servers map[string]*Server
}

// Shared returns the one server of the tests of a package. The package's TestMain must end with
// os.Exit(redistest.Main(m)), which stops it.
func Shared(t testing.TB) *Server {
	t.Helper()
	return sharedServer(t, needs.Redis(t))
}

func sharedServer(t testing.TB, program string) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if s := shared.servers[program]; s != nil {
		return s
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		t.Fatal(err)
	}
	s, err := launch(program, dir, nil)
	if err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	if shared.servers == nil {
		shared.servers = map[string]*Server{}
	}
	shared.servers[program] = s
	return s
}

// Main runs the tests of a package, stops the shared servers and returns the exit
// code.
func Main(m *testing.M) int {
	code := m.Run()
	for _, s := range shared.servers {
		s.Stop()
		os.RemoveAll(s.dir)
	}
	return code
}

// hostPort returns host and port as separate arguments of Redis commands.
func (s *Server) hostPort() (host, port string) {
	host, port, _ = net.SplitHostPort(s.Addr) // launch made it
	return host, port
}

// Kill ends the process immediately, as a crash does (SIGKILL). It returns when the process
// has ended.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// Stop is Kill, at the end of a server's use.
func (s *Server) Stop() { s.Kill() }

// Restart starts the server again on the same port; it kills a running server first. The
// server is empty unless it uses AOF.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// ended reports whether the server's process has ended.
func (s *Server) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
