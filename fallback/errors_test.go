package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// TestFallbackCallerLeaves: the end of the caller's own context ends the call with its error.
// That is no failure of the store, and in no mode a grant, not even of an open breaker. A call
// that was sent may be recorded.
func TestFallbackCallerLeaves(t *testing.T) {
	const soon = 20 * time.Millisecond
	for _, c := range []struct {
		after time.Duration
		want  error
	}{{0, context.Canceled}, {soon, context.Canceled}, {soon, context.DeadlineExceeded}, {0, context.DeadlineExceeded}} {
		left := func() (own context.Context, leave context.CancelFunc) {
			if c.want == context.DeadlineExceeded {
				return context.WithTimeout(ctx, c.after)
			}
			if own, leave = context.WithCancel(ctx); c.after == 0 {
				leave()
			}
			time.AfterFunc(c.after, leave)
			return own, leave
		}
		for _, mode := range modes {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, ten, mode)
				leave := func(sent bool) {
					t.Helper()
					own, cancel := left()
					defer cancel()
					began := time.Now()
					d, err := s.Allow(own, weir.K("42"))
					if !errors.Is(err, c.want) || errors.Is(err, weir.ErrOutcomeUnknown) != sent || d != (weir.Decision{}) || time.Since(began) > soon {
						t.Fatalf("%+v, %v: got %+v, %v after %v; want unknown %t", c, mode, d, err, time.Since(began), sent)
					}
				}
				s.Break(weirtest.Silent())
				for range 20 {
					leave(true)
				}
				if got := s.fallback.Status(); got.Cause != nil || got.Failures != 0 || got.Degraded != 0 {
					t.Errorf("%+v, %v: status %+v; want no failure", c, mode, got)
				}
				if c.after == 0 {
					s.Break(weirtest.Down())
					s.fail(5)
					degraded := s.fallback.Status().Degraded
					leave(false)
					assert.Equal(t, s.fallback.Status().Degraded, degraded, "%+v, %v, an open breaker: decisions", c, mode)
				}
			})
		}
	}
}

// TestFallbackCallersDeadlineByTheClock: an engine that reads the deadline itself may return
// before the context ends. That is still the caller's deadline.
func TestFallbackCallersDeadlineByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Allow)
		s.Break(func(context.Context, func()) error { return context.DeadlineExceeded })
		late := lateContext{context.Background(), time.Now()}
		if d, err := s.Allow(late, weir.K("42")); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, weir.ErrOutcomeUnknown) || d.Allowed {
			t.Errorf("got %+v, %v; want DeadlineExceeded and ErrOutcomeUnknown", d, err)
		}
		for _, read := range []error{context.DeadlineExceeded, fmt.Errorf("%w: %w", weir.ErrUnavailable, context.DeadlineExceeded)} {
			s.Break(func(context.Context, func()) error { return read })
			if _, err := s.Peek(late, weir.K("42"), 1); err != context.DeadlineExceeded {
				t.Errorf("a peek: got %v; want DeadlineExceeded alone", err)
			}
		}
		if _, err := s.Allow(late, weir.K("42")); err != context.DeadlineExceeded {
			t.Errorf("a call that was not sent: got %v; want DeadlineExceeded alone", err)
		}
		s.want(up)
	})
}

// lateContext has passed its deadline and has not ended yet.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// TestTimeoutIsNotTheCallersDeadline: an engine's error that reports the outcome of the call is
// returned unchanged, except for the end of a context that is not the caller's.
func TestTimeoutIsNotTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Deny)
		for _, outcome := range []error{weir.ErrOutcomeUnknown, weir.ErrUnavailable} {
			cause := &net.AddrError{Err: "says the store", Addr: "somewhere"}
			s.Break(func(ctx context.Context, _ func()) error {
				<-ctx.Done()
				return fmt.Errorf("%w: %w: %w", outcome, cause, ctx.Err())
			})
			_, err := s.Allow(ctx, weir.K("42"))
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%v: looks like the end of the caller's own context", err)
			}
			var found *net.AddrError
			if !errors.Is(err, outcome) || !errors.Is(err, cause) || !errors.As(err, &found) || !strings.Contains(err.Error(), "timeout of 50ms") {
				t.Errorf("got %v; want the engine's whole error, and the budget", err)
			}
		}
	})
}

// TestForeignErrors: an error without the outcome of the call counts as ErrOutcomeUnknown, unless
// the call would have changed nothing.
func TestForeignErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		theirs bool // it looks like the end of the caller's own context
	}{
		{net.ErrClosed, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, false},
		{context.DeadlineExceeded, true},
		{context.Canceled, true},
	} {
		s := newStore(t, ten, fallback.Deny)
		s.Break(func(context.Context, func()) error { return c.err })
		_, wrote := s.Allow(ctx, weir.K("42"))
		_, read := s.Peek(ctx, weir.K("42"), 1)
		if !errors.Is(wrote, weir.ErrOutcomeUnknown) || errors.Is(wrote, weir.ErrUnavailable) {
			t.Errorf("%v: allow got %v; want ErrOutcomeUnknown", c.err, wrote)
		}
		if !errors.Is(read, weir.ErrUnavailable) || errors.Is(read, weir.ErrOutcomeUnknown) {
			t.Errorf("%v: peek got %v; want ErrUnavailable", c.err, read)
		}
		for _, err := range []error{wrote, read} {
			if !strings.Contains(err.Error(), c.err.Error()) || errors.Is(err, c.err) == c.theirs {
				t.Errorf("%v: the cause in %v; want it wrapped unless it looks like the caller's own", c.err, err)
			}
		}
		s.fail(4)
		s.want(down)
	}
}

// TestPanicOfTheEngineReachesTheCaller: also from a probe; the next probe can run.
func TestPanicOfTheEngineReachesTheCaller(t *testing.T) {
	thrown := errors.New("thrown")
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, ten, fallback.Allow)
		panics := func(context.Context, func()) error { panic(thrown) }
		s.Break(panics)
		for range 10 {
			assert.Equal(t, assert.Recovered(func() { s.Allow(ctx, weir.K("42")) }), any(thrown), "caught")
		}
		s.want(up)
		s.Break(weirtest.Down())
		s.fail(5)
		s.Break(panics)
		for range 3 {
			time.Sleep(time.Second)
			assert.Equal(t, assert.Recovered(func() { s.Allow(ctx, weir.K("42")) }), any(thrown), "caught from a probe")
		}
		s.Restore()
		time.Sleep(time.Second)
		assert.Equal(t, mustAllow(t, s.Limiter, weir.K("42")).Degraded, false, "degraded when it is restored")
	})
}
