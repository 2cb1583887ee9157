// Package redistest runs real Redis servers for tests: alone, with replicas,
// under a Sentinel or as a Cluster, and does to them what happens to servers.
// They are killed, frozen, restarted empty, and cut off by a Proxy.
//
// Servers listen on loopback, on free ports, in directories of their own, keep
// nothing on disk unless told to, and end with the test. Servers that the tests
// did not start are left alone.
package redistest

import (
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Install says how to get what the tests need.
const Install = "redis-server is not installed: on Debian and Ubuntu run `apt-get install redis-server`, " +
	"on macOS `brew install redis`; tests start servers of their own and leave others alone"

// patience is how long a server may take for anything. Tests run on crowded
// machines, and only failures wait this long.
const patience = 30 * time.Second

// Server is a redis-server process of the test's own. Its methods may be called
// concurrently with traffic, but not with each other.
type Server struct {
	Addr     string // host:port
	Password string // what requirepass says, "" for none

	args []string
	dir  string
	cmd  *exec.Cmd     // the running process, or the last that ran
	done chan struct{} // closed when that process has ended
}

// AOF makes a server write every command to a file before it answers, so that a
// Restart finds everything that was answered. It does not wait for the disk: here
// processes die, and never the machine.
var AOF = []string{"--appendonly", "yes", "--appendfsync", "no"}

// Start returns a running server with further arguments of redis-server, such as
// "--maxmemory", "2mb". It ends with the test. Without redis-server installed the
// test fails, and says how to install it.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := launch(t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Shared returns the server that the tests of one package share. The package's
// TestMain must end with os.Exit(redistest.Main(m)), which stops it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "redistest")
		if err != nil {
			shared.err = err
			return
		}
		if shared.server, shared.err = launch(dir, nil); shared.err != nil {
			os.RemoveAll(dir)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Main runs the tests of a package, stops the shared server and returns the exit
// code.
func Main(m *testing.M) int {
	code := m.Run()
	if s := shared.server; s != nil {
		s.Stop()
		os.RemoveAll(s.dir)
	}
	return code
}

// Host and port of the server, as Redis's commands want them.
func (s *Server) hostPort() (host, port string) {
	host, port, _ = net.SplitHostPort(s.Addr) // launch made it
	return host, port
}
