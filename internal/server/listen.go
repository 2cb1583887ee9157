package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

func (s *Server) newHTTP() *http.Server {
	c := s.config.Limits
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: c.ReadHeader,
		ReadTimeout:       c.Read,
		WriteTimeout:      c.Write,
		IdleTimeout:       c.Idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// Listen opens the address. From then on connections wait for Serve.
func (s *Server) Listen() error {
	l, err := net.Listen("tcp", s.config.Listen)
	if err != nil {
		return fmt.Errorf("weir: cannot listen: %w", err)
	}
	s.listener = capped(l, s.config.Limits.Conns)
	return nil
}

// Addr is the address listened on, such as 127.0.0.1:7070; before Listen it is
// the one that was asked for.
func (s *Server) Addr() string {
	if s.listener == nil {
		return s.config.Listen
	}
	return s.listener.Addr().String()
}

// Serve answers requests until ctx is done, calling Listen first if nobody has.
// Then /readyz says no, for Limits.Linger requests are still taken, and those
// under way are answered. An error says that the listener broke, or that some
// were not through within Limits.Drain and were cut off. A Server serves once.
func (s *Server) Serve(ctx context.Context) error {
	if s.listener == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	broken := make(chan error, 1)
	go func() { broken <- s.http.Serve(s.listener) }()
	select {
	case err := <-broken:
		return fmt.Errorf("weir: cannot accept connections: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.linger(broken)
	return s.drain()
}

// linger gives load balancers time to see that the server is not ready, and
// clients time to let go of their connections: every answer now asks them to.
// Closing at once would lose what they are just sending on one.
func (s *Server) linger(broken <-chan error) {
	if s.config.Limits.Linger <= 0 {
		return
	}
	t := time.NewTimer(s.config.Limits.Linger)
	defer t.Stop()
	select {
	case <-t.C:
	case <-broken:
	}
}

// drain waits for the requests under way, within bounds.
func (s *Server) drain() error {
	bound := s.config.Limits.Drain
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.http.Close()
		return fmt.Errorf("weir: some requests were not answered within %v and were cut off", bound)
	}
	return err
}

// capped bounds the connections of l that are open at once to n; further ones
// wait in the queue of the operating system.
func capped(l net.Listener, n int) net.Listener {
	return &cappedListener{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type cappedListener struct {
	net.Listener
	slots  chan struct{} // one element for each connection
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a slot, then for a connection.
func (l *cappedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &cappedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close also ends an Accept that waits for a slot.
func (l *cappedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// cappedConn gives its slot back when it is closed.
type cappedConn struct {
	net.Conn
	release func()
}

func (c *cappedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

// CloseWrite lets net/http say goodbye properly where it answers before it has
// read the whole request: without it the client may never see the answer.
func (c *cappedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
