package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/testkit/listentest"
)

// busOffset is the default distance from a node's port to the port of the Cluster's bus.
const busOffset = 10_000

// launch starts a server, a program, with its files in dir. Another process may take the free port
// first, so launch tries a few. The port is held until discard.
func launch(program, dir string, args []string) (*Server, error) {
	var last error
	for range 5 {
		addr, err := listentest.HoldPort(busOffset)
		if err != nil {
			return nil, err
		}
		s := &Server{Addr: addr, program: program, args: args, dir: dir}
		if i := slices.Index(args, "--requirepass"); i >= 0 {
			s.Password = args[i+1]
		}
		if last = s.run(); last == nil {
			return s, nil
		}
		listentest.ReleasePort(addr)
	}
	return nil, last
}

// discard stops the server and gives its port back.
func (s *Server) discard() {
	s.Stop()
	listentest.ReleasePort(s.Addr)
}

// run starts a process for the server and waits until it replies.
func (s *Server) run() error {
	_, port := s.hostPort()
	s.cmd = exec.Command(s.program, append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "notice",
		"--repl-diskless-sync-delay", "0", "--enable-debug-command", "local"}, s.args...)...)
	return s.start()
}

// start starts s.cmd and waits until the server replies. Its output goes to its log file.
func (s *Server) start() error {
	log, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = dieWithTests()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, done := s.cmd, make(chan struct{})
	s.done = done
	go func() {
		cmd.Wait()
		close(done)
	}()
	if err := s.await(); err != nil {
		s.Kill()
		return err
	}
	return nil
}

// await returns when the server replies and has loaded its data from disk. A reply by
// another process, which got the port first, does not count.
func (s *Server) await() error {
	process := fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)
	err := poll(func() error {
		if s.ended() {
			return errEnded
		}
		if _, err := s.Do("PING"); err != nil {
			return err
		}
		info, err := s.Do("INFO", "server")
		if err == nil && !strings.Contains(info, process) {
			err = errors.New("another server has the port")
		}
		return err
	})
	if err != nil {
		log, _ := os.ReadFile(s.logFile())
		return fmt.Errorf("redistest: %s on %s does not answer: %w; its log:\n%s", s.program, s.Addr, err, log)
	}
	return nil
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

// errEnded ends a poll early.
var errEnded = errors.New("the process has ended")

// poll calls try until it succeeds, for patience at most, and returns its last error.
func poll(try func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil || errors.Is(err, errEnded) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
