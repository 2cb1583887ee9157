package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// errorClass states the meaning of an engine's error for its store.
type errorClass uint8

const (
	answered   errorClass = iota // the store decided, for example that it is full
	unrelated                    // bad input, the caller's context ended, or the store was not called
	unreadable                   // the store is up and could not decide this key
	failed                       // the store could not decide
)

// classify separates outages from answers. It returns the error for the caller: a
// failure wraps ErrUnavailable or ErrOutcomeUnknown. ctx is the caller's own.
func (s *store) classify(ctx context.Context, c *call, err error) (errorClass, error) {
	ended := callerError(ctx)
	switch {
	case errors.Is(err, weir.ErrFull), errors.Is(err, weir.ErrOverflow):
		return answered, err // about the store's content: no other engine knows better
	case weir.IsBadInput(err), errors.Is(err, errCached):
		return unrelated, err
	case ended != nil:
		return unrelated, ended
	case errors.Is(err, weir.ErrUnreadable):
		return unreadable, err
	case errors.Is(err, weir.ErrUnavailable), errors.Is(err, weir.ErrOutcomeUnknown):
		if isContextError(err) {
			err = timeoutError{s.timeout, err}
		}
		return failed, err
	}
	outcome := weir.ErrOutcomeUnknown // an error without a statement is taken for the worse
	if !c.writes() {
		outcome = weir.ErrUnavailable
	}
	if isTimeout(err) {
		err = timeoutError{s.timeout, err}
	}
	return failed, fmt.Errorf("%w: %w", outcome, err)
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
