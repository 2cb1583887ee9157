// Package redistest runs a redis-server for tests: on loopback, on a free port,
// in a directory of its own, keeping nothing. It ends with the test.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Install says how to get what the tests need.
const Install = "redis-server is not installed: on Debian and Ubuntu run `apt-get install redis-server`, " +
	"on macOS `brew install redis`; tests start their own server and leave others alone"

// Server is a running redis-server.
type Server struct {
	Addr string // host:port
	cmd  *exec.Cmd
	dir  string
	log  *bytes.Buffer
	done chan struct{} // closed when the process has ended
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
	shared.once.Do(func() { shared.server, shared.err = launch() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Main runs the tests of a package and stops the shared server.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	return code
}

// Start returns a server of the test's own, with further arguments such as
// "--maxmemory", "2mb".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := launch(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// launch starts a server. Between finding a free port and taking it somebody
// else may have taken it, so it tries a few.
func launch(args ...string) (s *Server, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New(Install)
	}
	for range 5 {
		if s, err = launchOnce(path, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func launchOnce(path string, args []string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	dir, err := os.MkdirTemp("", "weirredis")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	s := &Server{Addr: addr, dir: dir, log: new(bytes.Buffer), done: make(chan struct{})}
	s.cmd = exec.Command(path, append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go func() {
		s.cmd.Wait()
		close(s.done)
	}()
	if err := s.await(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// await returns when the server answers.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if answer, err := s.Do("PING"); err == nil && strings.HasPrefix(answer, "+PONG") {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.done:
			return fmt.Errorf("redis-server on %s ended at once: %s", s.Addr, s.log)
		case <-ctx.Done():
			return fmt.Errorf("redis-server on %s does not answer", s.Addr)
		}
	}
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() {
	s.cmd.Process.Kill()
	<-s.done
	os.RemoveAll(s.dir)
}
