package fallback

import (
	"context"
	"errors"
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
	share   func() *localShare // of mode Share, made at its first use

	failures, timeouts, degraded atomic.Int64
}

// now returns the time since the store was made, in nanoseconds of the monotonic clock.
func (s *store) now() int64 { return int64(time.Since(s.start)) }

// do sends the call if the breaker permits it. It reports whether the result is final:
// the store decided, or the error concerns the call itself. Otherwise the result holds
// the reason why there is no decision.
func (s *store) do(ctx context.Context, c *call) (res result, final bool) {
	sent, probe := s.breaker.admit()
	if !sent {
		if ended := callerError(ctx); ended != nil { // a grant is of no use to the caller
			return result{err: ended}, true
		}
		return result{err: s.breaker.rejection.Load().err}, false
	}
	if probe {
		defer s.breaker.release()
	}
	return s.conclude(ctx, probe, c, s.run(ctx, c))
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
