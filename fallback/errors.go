package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir/engine"
)

// answerClass is the meaning of a call's answer for its store, the worst last.
type answerClass uint8

const (
	unrelated  answerClass = iota // bad input, the caller's context ended, or the store was not called
	answered                      // the store decided, or for example it is full
	unreadable                    // the store is up and could not decide this key
	failed                        // the store could not decide
)

// classify separates outages from answers. It sets the error for the caller: a failure
// wraps ErrUnavailable or ErrOutcomeUnknown, and the end of ctx, the caller's own, wraps
// ErrOutcomeUnknown too if the call may be recorded.
func (f *Engine) classify(ctx context.Context, c *engine.Call) answerClass {
	err := c.Err
	switch {
	case err == nil && c.Result.Cached, errors.Is(err, engine.ErrInput):
		return unrelated
	case err == nil, errors.Is(err, engine.ErrFull), errors.Is(err, engine.ErrOverflow):
		return answered // about the store's content: no other engine knows better
	}
	if ended := callerError(ctx); ended != nil {
		if mayChange(c) && !errors.Is(err, engine.ErrUnavailable) {
			ended = fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, ended)
		}
		c.Fail(ended)
		return unrelated
	}
	unavailable := errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrOutcomeUnknown)
	switch {
	case errors.Is(err, engine.ErrUnreadable):
		return unreadable
	case unavailable && isContextError(err), !unavailable && isTimeout(err):
		c.Err = timeoutError{f.timeout, err}
	}
	if !unavailable {
		outcome := engine.ErrOutcomeUnknown // an error without a statement is taken for the worse
		if !mayChange(c) {
			outcome = engine.ErrUnavailable
		}
		c.Err = fmt.Errorf("%w: %w", outcome, c.Err)
	}
	return failed
}

// mayChange reports whether the call may change the store.
func mayChange(c *engine.Call) bool {
	return c.Op == engine.Reset || c.Op != engine.Peek && c.Op != engine.Count && c.N > 0
}

// timeoutError is the error of a call that ran out of time while its caller still
// waits. It hides the context errors in err, which callers would take for the end of
// their own context.
type timeoutError struct {
	timeout time.Duration // 0 = set by the engine
	err     error
}

func (e timeoutError) Error() string {
	if e.timeout == 0 {
		return fmt.Sprintf("no answer within the engine's own timeout: %v", e.err)
	}
	return fmt.Sprintf("no answer within the timeout of %v: %v", e.timeout, e.err)
}

// Is reports whether err matches the target, except for context errors.
func (e timeoutError) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

// As finds the target in err.
func (e timeoutError) As(target any) bool { return errors.As(e.err, target) }

// isContextError reports whether err would look like the end of a context.
func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// isTimeout reports whether err is a timeout or a cancellation.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.Canceled) || errors.As(err, &t) && t.Timeout()
}

// callerError returns the error of a caller's context that has ended, else nil. It
// compares the deadline with the clock too: an engine that reads the deadline itself may
// return before the context's timer fires.
func callerError(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ctx.Err() == nil && ok && time.Until(deadline) <= 0 {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}
