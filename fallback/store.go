package fallback

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

// store calls an engine within a timeout, and stops calling it while it fails.
type store struct {
	engine  weir.Engine
	timeout time.Duration // 0 = none
	start   time.Time
	breaker breaker
	share   func() *localShare // of mode Local, made at its first use

	failures, timeouts, degraded atomic.Int64
}

// now returns the time since the store was made, in nanoseconds of the monotonic clock.
func (s *store) now() int64 { return int64(time.Since(s.start)) }

// do sends the call if the breaker permits it. It reports whether the result is final:
// the store decided, or the error concerns the call itself. Otherwise the result holds
// the reason why there is no decision.
func (s *store) do(ctx context.Context, c *call) (res result, final bool) {
	switch sent, probe := s.breaker.admit(); {
	case !sent:
		if ended := callerError(ctx); ended != nil { // a grant is of no use to the caller
			return result{err: ended}, true
		}
		return result{err: s.breaker.rejection.Load().err}, false
	case probe:
		if s.timeout == 0 {
			defer s.breaker.release()
			return s.conclude(ctx, true, c, c.run(ctx, s.engine))
		}
		return s.probe(ctx, c)
	}
	return s.conclude(ctx, false, c, s.run(ctx, c))
}

// run calls the engine within the timeout.
func (s *store) run(ctx context.Context, c *call) result {
	if s.timeout > 0 {
		timed, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		ctx = timed
	}
	return c.run(ctx, s.engine)
}

// conclude updates the breaker and the counters from a result. ctx is the caller's own.
func (s *store) conclude(ctx context.Context, probe bool, c *call, res result) (result, bool) {
	switch {
	case res.err == nil && res.decision.Cached: // no evidence: the store was not called
		if probe {
			s.breaker.probeSoon()
		}
		return res, true
	case res.err == nil:
		s.breaker.succeeded(probe)
		return res, true
	}
	var class errorClass
	class, res.err = s.classify(ctx, c, res.err)
	switch class {
	case answered:
		s.breaker.succeeded(probe)
	case unrelated:
		if probe {
			s.breaker.probeSoon()
		}
	case unreadable:
		s.failures.Add(1)
		s.breaker.succeeded(probe)
	case failed:
		s.failures.Add(1)
		if errors.As(res.err, new(timeoutError)) {
			s.timeouts.Add(1)
		}
		s.breaker.failed(res.err)
	}
	return res, class == answered || class == unrelated
}

// probeFraction is the part of the timeout that a probe's caller waits: 2 ms of 50 ms.
// The store has been failing, so the caller would probably wait in vain.
const probeFraction = 25

// probe sends the call to a store that has been failing. The caller waits for a small
// part of the timeout. Then the mode decides, and the probe goes on in the background
// for the benefit of later callers. As after any timeout, the store may record the call.
func (s *store) probe(ctx context.Context, c *call) (result, bool) {
	if ctx.Err() != nil {
		s.breaker.probeSoon()
		s.breaker.release()
		return result{err: ctx.Err()}, true
	}
	type outcome struct {
		result
		final    bool
		panicked any
	}
	own := c.clone()
	done, abandoned := make(chan outcome), make(chan struct{})
	defer close(abandoned)
	go func() {
		var o outcome
		defer func() {
			o.panicked = recover()
			s.breaker.release()
			select {
			case done <- o: // a panic goes to the caller, as from any other call
			case <-abandoned:
				if o.panicked != nil {
					panic(o.panicked)
				}
			}
		}()
		ctx := context.WithoutCancel(ctx)
		o.result, o.final = s.conclude(ctx, true, own, s.run(ctx, own))
	}()
	patience := time.NewTimer(s.timeout / probeFraction)
	defer patience.Stop()
	select {
	case o := <-done:
		if o.panicked != nil {
			panic(o.panicked)
		}
		copy(c.request.States, own.request.States)
		return o.result, o.final
	case <-ctx.Done():
		return result{err: ctx.Err()}, true
	case <-patience.C:
	}
	fate := weir.ErrUnavailable
	if c.writes() {
		fate = weir.ErrUnknownFate
	}
	return result{err: fmt.Errorf("%w: the store has been failing, and the probe got no answer within %v", fate, s.timeout/probeFraction)}, false
}
