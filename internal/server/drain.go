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
	opens := []func() error{func() error { return s.main.open(s) }}
	if s.admin != nil {
		opens = append(opens, func() error { return s.admin.open(s) })
	}
	if s.resp != nil {
		opens = append(opens, func() error { return s.resp.open(s) })
	}
	if s.rpc != nil {
		opens = append(opens, s.rpc.open)
	}
	for _, open := range opens {
		if err := open(); err != nil {
			s.close()
			return err
		}
	}
	return nil
}

// close closes the listeners that Listen has opened.
func (s *Server) close() {
	for _, l := range s.listeners() {
		if l.socket != nil {
			l.socket.Close()
		}
	}
	if s.resp != nil && s.resp.socket != nil {
		s.resp.socket.Close()
	}
	if s.rpc != nil && s.rpc.listener != nil {
		s.rpc.listener.Close()
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
	failed := make(chan error, len(s.listeners())+2)
	if s.rpc != nil {
		go func() { failed <- s.rpc.serve() }()
	}
	for _, l := range s.listeners() {
		go func() {
			err := l.http.Serve(l.socket)
			close(l.done)
			failed <- err
		}()
	}
	if s.resp != nil {
		go func() {
			err := s.resp.server.Serve(s.resp.socket)
			close(s.resp.done)
			failed <- err
		}()
	}
	select {
	case err := <-failed:
		s.close()
		return fmt.Errorf("weir: cannot accept connections: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.log.Info("draining", "linger", s.config.Limits.Linger.String(), "drain", s.config.Limits.Drain.String())
	if s.rpc != nil {
		s.rpc.calls.NotServing()
	}
	s.linger(failed)
	return s.drain()
}

// linger gives load balancers time to see that the server is not ready. Clients keep
// their connections meanwhile: after a close they would return at once, while the
// address still accepts them.
func (s *Server) linger(failed <-chan error) {
	if s.config.Limits.Linger <= 0 {
		return
	}
	t := time.NewTimer(s.config.Limits.Linger)
	defer t.Stop()
	select {
	case <-t.C:
	case <-failed:
	}
}

// drain waits for the requests in flight, up to Limits.Drain: on all listeners at once,
// since each may have slow requests, and on that of operators last.
func (s *Server) drain() error {
	bound := s.config.Limits.Drain
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	drains := []func(context.Context) error{s.main.drain}
	if s.resp != nil {
		drains = append(drains, s.resp.drain)
	}
	if s.rpc != nil {
		drains = append(drains, s.rpc.drain)
	}
	err := together(ctx, drains)
	if s.admin != nil {
		err = cmp.Or(err, s.admin.drain(ctx))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("weir: some requests were not answered within %v and were cut off", bound)
	}
	return err
}

// together calls all functions at once and returns the first error in their order.
func together(ctx context.Context, all []func(context.Context) error) error {
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, f := range all {
		running.Go(func() { errs[i] = f(ctx) })
	}
	running.Wait()
	return cmp.Or(errs...)
}

// settleTime is how long clients have to send a request on an open connection and to
// receive the answer that closes it.
const settleTime = time.Second

// drain accepts the waiting connections, then no more, and waits for the requests on
// them until ctx is done.
func (l *listener) drain(ctx context.Context) error {
	l.Draining.Store(true)
	l.socket.Drain()
	l.settle(ctx)
	err := l.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		l.http.Close()
	}
	return err
}

// settle waits until all clients have disconnected or, if some stay, until none of them
// waits for an answer. Shutdown of net/http answers the requests in flight, but drops
// those that it has not read yet, and closes idle connections.
func (l *listener) settle(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	accepted(bounded, l.done)
	until(bounded, func() bool { return l.socket.Active() == 0 })
	bounded, cancel = context.WithTimeout(ctx, settleTime)
	defer cancel()
	until(bounded, func() bool { return l.socket.Busy() == 0 && !l.socket.Unread() })
}

// accepted waits until a server has accepted the connections of its ended listener: then
// it closes done. While all slots are taken it accepts none until a client leaves, so
// the wait ends after settleTime.
func accepted(ctx context.Context, done <-chan struct{}) {
	bounded, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	select {
	case <-done:
	case <-bounded.Done():
	}
}

// until checks done every millisecond until it reports true or ctx is done.
func until(ctx context.Context, done func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
