// Package redisserver runs a redis-server for measurements: on loopback, on a free port, in
// a temporary directory, without persistence. It also reads the server's INFO.
package redisserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a running redis-server. Stop ends it.
type Server struct {
	Addr string // host:port
	cmd  *exec.Cmd
	dir  string
	log  *bytes.Buffer
	done chan struct{} // closed when the process has ended
}

// errAbsent: there is no redis-server to run.
var errAbsent = errors.New("redis-server is not installed: on Debian and Ubuntu run `apt-get install redis-server`, " +
	"on macOS `brew install redis`; the comparison starts its own server and leaves others alone")

// Start starts a server with further arguments, such as "--replicaof", "127.0.0.1 6379", and
// returns when it answers. Another process may take the free port first, so Start tries
// several.
func Start(args ...string) (s *Server, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errAbsent
	}
	for range 5 {
		if s, err = start(path, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func start(path string, args []string) (*Server, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-bench-redis-")
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

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// await returns when the server answers.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := Client(s.Addr)
	defer c.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for c.Ping(ctx).Err() != nil {
		select {
		case <-tick.C:
		case <-s.done:
			return fmt.Errorf("redis-server on %s ended at once: %s", s.Addr, s.log)
		case <-ctx.Done():
			return fmt.Errorf("redis-server on %s does not answer", s.Addr)
		}
	}
	return nil
}

// Stop ends the server and removes its directory. It may be called twice.
func (s *Server) Stop() {
	s.cmd.Process.Kill()
	<-s.done
	os.RemoveAll(s.dir)
}

// Client returns a client of one connection, to fill and to inspect a server.
func Client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: 1, Protocol: 2, MaxRetries: -1,
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, // a full log takes a while to read
	})
}
