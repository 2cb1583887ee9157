package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"
)

// Serve accepts connections from l until l is closed or Shutdown is called; then it
// returns nil. It returns an error if l fails. l is closed. A Server serves once.
func (s *Server) Serve(l net.Listener) error {
	s.serving.Add(1)
	defer s.serving.Done()
	defer l.Close()
	defer context.AfterFunc(s.draining, func() { l.Close() })()
	for pause := time.Duration(0); ; {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.serving.Go(newConn(s, nc).serve)
		case s.isDraining() || errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err): // open connections go on
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.config.Log.Warn("cannot accept a connection; trying again", "error", err, "in", pause)
			time.Sleep(pause)
		default:
			return fmt.Errorf("resp: cannot accept connections: %w", err)
		}
	}
}

// isTemporary reports errors of a single connection, and a temporary lack of file
// descriptors or memory.
func isTemporary(err error) bool {
	temporary := []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}
	return slices.ContainsFunc(temporary, func(t error) bool { return errors.Is(err, t) })
}

func (s *Server) isDraining() bool { return s.draining.Err() != nil }

// Shutdown accepts no more connections and reads no more commands. Commands that were read
// are answered, then their connections are closed. When ctx ends first, the remaining
// connections are cut off, and the error reports their number.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	left := s.clients.Load()
	s.cutOff()
	<-done
	if left == 0 {
		return nil
	}
	return fmt.Errorf("resp: %d clients did not read their answers in time and were cut off", left)
}
