package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Serve accepts connections from l until it is closed or Shutdown is called; then
// it returns nil. An error says that l broke. l is closed.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	defer context.AfterFunc(s.draining, func() { l.Close() })()
	for pause := time.Duration(0); ; {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.take(nc)
		case s.isDraining() || errors.Is(err, net.ErrClosed):
			return nil
		case isPassing(err): // who is connected goes on meanwhile
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.config.Log.Warn("cannot accept a connection; trying again", "error", err, "in", pause)
			time.Sleep(pause)
		default:
			return fmt.Errorf("resp: cannot accept connections: %w", err)
		}
	}
}

// isPassing reports errors of one connection, or of a machine that is short of
// file descriptors or memory for a while.
func isPassing(err error) bool {
	for _, passing := range []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

func (s *Server) isDraining() bool { return s.draining.Err() != nil }

// take serves a connection on a goroutine of its own.
func (s *Server) take(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	refused := s.isDraining()
	if !refused {
		s.conns[c] = struct{}{}
		s.open.Add(1)
	}
	s.mu.Unlock()
	if refused {
		nc.Close()
		return
	}
	go func() {
		defer s.open.Done()
		defer s.forget(c)
		c.serve()
	}()
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown takes no more connections. Clients may put what they are about to ask, each
// until it was answered or for Limits.Leave, and all that was read is answered; then
// connections are closed. When ctx ends first, those that are left are cut off, and the
// error says so. A Server serves once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.leaveBy = time.Now().Add(s.config.Limits.Leave)
	s.drain()
	s.each(func(c *conn) { c.nc.SetReadDeadline(s.leaveBy) })
	done := make(chan struct{})
	go func() {
		s.open.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	left := 0
	s.each(func(c *conn) { c.nc.Close(); left++ })
	<-done
	if left == 0 {
		return nil
	}
	return fmt.Errorf("resp: %d clients did not take their answers in time and were cut off", left)
}

func (s *Server) each(do func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
}
