package weir

import (
	"errors"
	"fmt"

	"github.com/weirlimit/weir/engine"
)

// A denial is not an error (R15). An error means that no decision was possible and
// nothing changed.
var (
	// ErrInput is wrapped by each error of bad input, an *InputError or a *PolicyError: every
	// engine would reject the same call (R14).
	ErrInput = engine.ErrInput

	// ErrOverflow: recording would take a history above MaxUnits.
	ErrOverflow = engine.ErrOverflow
	// ErrFull: the engine is at its cap of keys or bytes, and all histories still count, or
	// Redis is at its maxmemory. None is forgotten early, and nothing was recorded (R13).
	ErrFull = engine.ErrFull

	// ErrUnavailable: the store could not be reached, and nothing was recorded. Of the errors of
	// stores only it and ErrFull can be followed by the same call without the risk of a second
	// charge.
	ErrUnavailable = engine.ErrUnavailable
	// ErrOutcomeUnknown: the call was sent and not answered. Its units may have been
	// recorded.
	ErrOutcomeUnknown = engine.ErrOutcomeUnknown
	// ErrUnreadable: the store answered, but its data for this key cannot be read, and
	// nothing was recorded. Errors that wrap it also wrap ErrUnavailable.
	ErrUnreadable = engine.ErrUnreadable

	// ErrSettled: the reservation was settled before, with another number of units. Nothing has
	// changed.
	ErrSettled = engine.ErrSettled
	// ErrExpired: the reservation is unknown, its time to live is over, or its hold has ended.
	// Nothing has changed, and its units stay as they were granted.
	ErrExpired = engine.ErrExpired

	// ErrNever: the attempt that waits can never be granted.
	ErrNever = errors.New("weir: more units than the limit ever allows")
	// ErrDeadline: the wait would outlast the context's deadline.
	ErrDeadline = errors.New("weir: the wait would outlast the deadline")
)

// InputError is the error of bad input in a call. It wraps [ErrInput].
type InputError = engine.InputError

// PolicyError is the error of a policy that New and Policy.Compile reject. It wraps
// [ErrInput].
type PolicyError struct {
	Policy string

	// Limit is the name of the limit, or #1, #2, … for one of several without a name. It is "" if
	// the policy itself is wrong.
	Limit string

	Field   string // field of Policy or Limit
	Problem string // the mistake and the valid values
}

// Error names policy, limit and field before the problem.
func (e *PolicyError) Error() string {
	if e.Limit == "" {
		return fmt.Sprintf("weir: policy %q: %s: %s", e.Policy, e.Field, e.Problem)
	}
	return fmt.Sprintf("weir: policy %q, limit %q: %s: %s", e.Policy, e.Limit, e.Field, e.Problem)
}

// Unwrap returns ErrInput.
func (e *PolicyError) Unwrap() error { return ErrInput }

// WaitError is returned by Wait and WaitN when they stop waiting.
type WaitError struct {
	// Decision is the last one, or the zero Decision if there was none. It is allowed if its units
	// were given back.
	Decision Decision

	N     int64 // units that were waited for
	Cause error // ErrNever, ErrDeadline or the context's error
}

// Error gives the cause, the limit and the remaining wait.
func (e *WaitError) Error() string {
	switch {
	case e.Decision.At.IsZero(): // no attempt was made
		return fmt.Sprintf("weir: gave up waiting: %v", e.Cause)
	case errors.Is(e.Cause, ErrNever):
		return e.never()
	case e.Decision.Allowed: // its turn would have come
		return fmt.Sprintf("weir: gave up waiting for %v: %v", e.Decision.StartAfter, e.Cause)
	}
	return fmt.Sprintf("%v (needs %v more, limit %q)",
		e.Cause, e.Decision.RetryAfter, e.Decision.Limit)
}

// never explains ErrNever.
func (e *WaitError) never() string {
	switch d := &e.Decision; {
	case d.Max == 0:
		return fmt.Sprintf("%v: %d of limit %q, which denies everything", e.Cause, e.N, d.Limit)
	case d.Max < e.N:
		return fmt.Sprintf("%v: %d of limit %q, which allows %d; wait for at most %[4]d at a time",
			e.Cause, e.N, d.Limit, d.Max)
	default: // a fixed cost
		return fmt.Sprintf("%v: the cost of an attempt is above limit %q, which allows %d; "+
			"lower the cost", e.Cause, d.Limit, d.Max)
	}
}

// Unwrap returns the cause.
func (e *WaitError) Unwrap() error { return e.Cause }
