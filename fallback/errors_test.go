package fallback_test

import (
	"context"
	"errors"
	"fmt"
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
	canceled := func(after time.Duration) func() (context.Context, context.CancelFunc) {
		return func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			if after == 0 {
				cancel()
			}
			time.AfterFunc(after, cancel)
			return ctx, cancel
		}
	}
	deadline := func(after time.Duration) func() (context.Context, context.CancelFunc) {
		return func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, after) }
	}
	for name, c := range map[string]struct {
		ctx  func() (context.Context, context.CancelFunc)
		want error
	}{
		"canceled before": {canceled(0), context.Canceled},
		"canceled within": {canceled(soon), context.Canceled},
		"deadline within": {deadline(soon), context.DeadlineExceeded},
		"deadline before": {deadline(-1), context.DeadlineExceeded},
	} {
		for _, mode := range modes {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, ten, mode)
				leave := func(sent bool) {
					t.Helper()
					own, cancel := c.ctx()
					defer cancel()
					began := time.Now()
					d, err := s.Allow(own, weir.K("42"))
					if !errors.Is(err, c.want) || errors.Is(err, weir.ErrOutcomeUnknown) != sent || d != (weir.Decision{}) || time.Since(began) > soon {
						t.Fatalf("%s, %v: got %+v, %v after %v; want %v, unknown %t", name, mode, d, err, time.Since(began), c.want, sent)
					}
				}
				s.Break(weirtest.Silent())
				for range 20 {
					leave(true)
				}
				if got := s.fallback.Status(); got.Cause != nil || got.Failures != 0 || got.Degraded != 0 {
					t.Errorf("%s, %v: status %+v; want no failure", name, mode, got)
				}
				if strings.HasSuffix(name, "before") {
					s.Break(weirtest.Down())
					s.fail(5)
					degraded := s.fallback.Status().Degraded
					leave(false)
					assert.Equal(t, s.fallback.Status().Degraded, degraded, "%s, %v, an open breaker: decisions", name, mode)
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
