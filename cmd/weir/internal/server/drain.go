package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Listen opens the addresses. From then on connections wait for Serve.
func (s *Server) Listen() error {
	for _, p := range s.ports {
		if err := p.open(s); err != nil {
			s.close()
			return err
		}
	}
	return nil
}

// close closes the listeners that Listen has opened.
func (s *Server) close() {
	for _, p := range s.ports {
		if p.socket != nil {
			p.socket.Close()
		}
	}
}

// Serve answers requests until ctx is done. It calls Listen first if needed. After ctx,
// /readyz answers 503, requests are still accepted for Limits.Linger, and those in
// flight are answered; operators and probes are served last. An error means that a
// listener failed, or that requests took longer than Limits.Drain and were cut off. A
// Server serves once.
func (s *Server) Serve(ctx context.Context) error {
	if s.main.socket == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	failed := make(chan error, len(s.ports))
	for _, p := range s.ports {
		go func() { failed <- p.serve(p.socket) }()
	}
	select {
	case err := <-failed:
		s.close()
		return fmt.Errorf("weir: cannot accept connections: %w", err)
	case <-ctx.Done():
	}
	s.api.Draining.Store(true)
	s.log.Info("draining", "linger", s.config.Limits.Linger.String(), "drain", s.config.Limits.Drain.String())
	if s.rpc != nil {
		s.rpc.calls.NotServing()
	}
	// Load balancers need time to see that the server is not ready. Every answer over HTTP
	// ends its connection meanwhile, so that no client is about to send a request on an old
	// one when the address closes.
	select {
	case <-time.After(s.config.Limits.Linger):
	case <-failed:
	}
	return s.drain()
}

// drain waits for the requests in flight, up to Limits.Drain: on all listeners at once,
// since each may have slow requests, and on that of operators last.
func (s *Server) drain() error {
	bound := s.config.Limits.Drain
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	errs := make([]error, len(s.ports)+1)
	var others sync.WaitGroup
	for i, p := range s.ports {
		if s.admin == nil || p != &s.admin.port {
			others.Go(func() { errs[i] = p.drain(ctx) })
		}
	}
	others.Wait()
	if s.admin != nil {
		errs[len(s.ports)] = s.admin.drain(ctx)
	}
	err := cmp.Or(errs...)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("weir: some requests were not answered within %v and were cut off", bound)
	}
	return err
}

// end accepts no more connections, and waits for the requests in flight until ctx is done.
func (l *listener) end(ctx context.Context) error {
	err := l.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		l.http.Close()
	}
	return err
}
