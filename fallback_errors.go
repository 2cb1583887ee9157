package weir

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What engines wrap in their errors when the store did not decide. They tell apart
// what matters to whoever would try again: only after ErrUnavailable may the same
// call be made a second time without the risk of being counted twice.
var (
	// ErrUnavailable: the store could not be asked, and nothing was recorded.
	ErrUnavailable = errors.New("weir: the store is unavailable")
	// ErrUnknownFate: the call was sent and its answer did not come. What it asked
	// for may or may not have been recorded.
	ErrUnknownFate = errors.New("weir: the fate of the call is unknown")
	// ErrUnreadable: the store answered, but what it holds for this key cannot be
	// read, and nothing was recorded. Other keys are as well as ever, so it does not
	// count towards the store being down. Errors that wrap it wrap ErrUnavailable.
	ErrUnreadable = errors.New("weir: the store holds something unreadable for the key")
)

// verdict is what an error of an engine says about its store.
type verdict uint8

const (
	answered   verdict = iota // the store decided, be it that it could not take more
	silent                    // nothing: the input was bad, or the caller left
	unreadable                // it is up, and could not decide this key
	failed                    // it could not decide
)

// judge tells an outage from an answer. The error it returns is what the caller
// gets if the outage is not hidden from him: of a failure it wraps ErrUnavailable
// or ErrUnknownFate. ctx is the caller's own.
func (g *guard) judge(ctx context.Context, q *question, err error) (verdict, error) {
	switch {
	case errors.Is(err, ErrFull), errors.Is(err, ErrOverflow):
		return answered, err // about what the store holds: no other engine knows better
	case isAboutInput(err):
		return silent, err
	case hasLeft(ctx):
		return silent, leaving(ctx)
	case errors.Is(err, ErrUnreadable):
		return unreadable, err
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrUnknownFate):
		if isContexts(err) {
			err = outOfTime{g.patience(), err}
		}
		return failed, err
	}
	fate := ErrUnknownFate // an error that does not say is taken for the worse
	if !q.writes() {
		fate = ErrUnavailable
	}
	if isTimeout(err) {
		return failed, fmt.Errorf("%w: %w", fate, outOfTime{g.patience(), err})
	}
	return failed, fmt.Errorf("%w: %w", fate, err)
}

// outOfTime is the error of a call whose time was up, or that was given up, while
// its caller still waits. It is all that err is but for the context's error, which
// callers would take for that of their own context.
type outOfTime struct {
	patience string
	err      error
}

func (e outOfTime) Error() string { return fmt.Sprintf("no answer within %s: %v", e.patience, e.err) }

// Is reports whether err is the target, unless that is a context's error.
func (e outOfTime) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

// As finds the target in err.
func (e outOfTime) As(target any) bool { return errors.As(e.err, target) }

// isContexts reports whether err would look like the error of a context.
func isContexts(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// patience describes how long the store was waited for.
func (g *guard) patience() string {
	if g.budget == 0 {
		return "the time that the engine gave it"
	}
	return "the budget of " + g.budget.String()
}

// isAboutInput reports whether another engine would refuse the same call (R14).
func isAboutInput(err error) bool {
	for _, input := range []error{ErrUnits, ErrKey, ErrInstant, ErrUnknownLimit, ErrSpan, ErrID, ErrAsk} {
		if errors.Is(err, input) {
			return true
		}
	}
	var policy *PolicyError
	return errors.As(err, &policy)
}

// isTimeout reports whether err says that time was up, or that the call was given
// up for some such reason.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.Canceled) || errors.As(err, &t) && t.Timeout()
}

// hasLeft reports whether the caller no longer waits. The clock is asked too: an
// engine that reads the deadline itself may return before the context's timer.
func hasLeft(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= 0
}

// leaving is the error of a caller that no longer waits.
func leaving(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.DeadlineExceeded
}
