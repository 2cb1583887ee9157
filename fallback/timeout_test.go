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
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

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
			assert.Equal(t, must.Panic(func() { s.Allow(ctx, weir.K("42")) }), any(thrown), "caught")
		}
		s.want(up)
		s.Break(weirtest.Down())
		s.fail(5)
		s.Break(panics)
		for range 3 {
			time.Sleep(time.Second)
			assert.Equal(t, must.Panic(func() { s.Allow(ctx, weir.K("42")) }), any(thrown), "caught from a probe")
		}
		s.Restore()
		time.Sleep(time.Second)
		assert.Equal(t, must.Get(s.Allow(ctx, weir.K("42")))(t).Degraded, false, "degraded when it is restored")
	})
}
