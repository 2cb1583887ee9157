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
	for _, f := range s.faces() {
		if err := f.open(s); err != nil {
			s.close()
			return err
		}
	}
	if s.resp != nil {
		if err := s.resp.open(s); err != nil {
			s.close()
			return err
		}
	}
	if s.rpc != nil {
		if err := s.rpc.open(); err != nil {
			s.close()
			return err
		}
	}
	return nil
}

// close closes what Listen has opened.
func (s *Server) close() {
	for _, f := range s.faces() {
		if f.listener != nil {
			f.listener.Close()
		}
	}
	if s.resp != nil && s.resp.listener != nil {
		s.resp.listener.Close()
	}
	if s.rpc != nil && s.rpc.listener != nil {
		s.rpc.listener.Close()
	}
}

// Addr is the main address listened on, such as 127.0.0.1:7070; before Listen it
// is the one that was asked for.
func (s *Server) Addr() string { return s.main.addr() }

// AdminAddr is the address where operators are answered; Addr if that is one.
func (s *Server) AdminAddr() string {
	if s.admin == nil {
		return s.main.addr()
	}
	return s.admin.addr()
}

// Serve answers requests until ctx is done, calling Listen first if nobody has.
// Then /readyz says no, for Limits.Linger requests are still taken, and those
// under way are answered; operators and probes are answered until the last. An
// error says that a listener broke, or that some requests were not through within
// Limits.Drain and were cut off. A Server serves once.
func (s *Server) Serve(ctx context.Context) error {
	if s.main.listener == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	broken := make(chan error, len(s.faces())+2)
	if s.rpc != nil {
		go func() { broken <- s.rpc.serve() }()
	}
	for _, f := range s.faces() {
		go func() {
			err := f.http.Serve(f.listener)
			close(f.done)
			broken <- err
		}()
	}
	if s.resp != nil {
		go func() {
			err := s.resp.server.Serve(s.resp.listener)
			close(s.resp.done)
			broken <- err
		}()
	}
	select {
	case err := <-broken:
		s.close()
		return fmt.Errorf("weir: cannot accept connections: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.log.Info("draining", "linger", s.config.Limits.Linger.String(), "drain", s.config.Limits.Drain.String())
	if s.rpc != nil {
		s.rpc.calls.NotServing()
	}
	s.linger(broken)
	return s.drain()
}

// linger gives load balancers time to see that the server is not ready. Clients
// keep their connections meanwhile: asked to leave, they would come back at once
// while the address still takes them.
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

// drain waits for the requests under way, within bounds: on all listeners at once,
// since each may have what takes its time, and on the operators' last.
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

// settle is how long clients may take to put the next request on a connection that
// is open, and to learn from its answer that they must leave.
const settle = time.Second

// drain accepts the connections that wait, then no more, and waits for the
// requests on them until ctx is done.
func (f *face) drain(ctx context.Context) error {
	f.leaving.Store(true)
	f.listener.Drain()
	f.settle(ctx)
	err := f.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		f.http.Close()
	}
	return err
}

// settle waits until every client has left, and until nobody waits for an answer
// if some stay: from Shutdown on net/http answers what it is working on, but drops
// requests that it has not read yet, and closes what is idle.
func (f *face) settle(ctx context.Context) {
	patience, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	select {
	case <-f.done: // all that the system had taken is accepted
	case <-patience.Done():
	}
	until(patience, func() bool { return f.listener.Active() == 0 })
	patience, cancel = context.WithTimeout(ctx, settle)
	defer cancel()
	until(patience, func() bool { return f.listener.Busy() == 0 && !f.listener.Unread() })
}

// taken waits until a server has taken the connections that its listener has still to
// hand out, and so is done with it. Where there are as many as may be, it takes no more
// until some leave, and they may not.
func taken(ctx context.Context, done <-chan struct{}) {
	patience, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	select {
	case <-done:
	case <-patience.Done():
	}
}

// until looks every millisecond whether done, or ctx is.
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
