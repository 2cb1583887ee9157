package weir

import (
	"errors"
	"fmt"
)

// A denial is not an error (R15). An error means that no decision was possible and
// nothing changed.
var (
	// Bad input (R14).

	// ErrUnits: the number of units is below 0 or above MaxUnits.
	ErrUnits = errors.New("weir: bad number of units")
	// ErrKey: the key does not fit the policy's dimensions, or a value is too long.
	ErrKey = errors.New("weir: bad key")
	// ErrInstant: an instant of the caller is before 1970-01-01T00:00:00Z, or more than
	// MaxInstant µs after it.
	ErrInstant = errors.New("weir: bad instant")
	// ErrUnknownLimit: the policy has no limit of that name.
	ErrUnknownLimit = errors.New("weir: unknown limit")
	// ErrRange: the span of a Count is not above 0 and within the limit's window.
	ErrRange = errors.New("weir: bad span")
	// ErrKind: the limit's kind has no such operation: a Bucket stores no instants to count.
	ErrKind = errors.New("weir: the limit's kind cannot do that")
	// ErrID: the id of an operation is missing, too long, or used for another operation.
	ErrID = errors.New("weir: bad operation id")
	// ErrRequest: a Request has an unknown Op, or a wrong number of States.
	ErrRequest = errors.New("weir: bad request")

	// State that would break a promise.

	// ErrOverflow: recording would take a history above MaxUnits.
	ErrOverflow = errors.New("weir: too many units in one history")
	// ErrFull: the engine is at its cap of keys or bytes, and all histories still count.
	// None is forgotten early (R13).
	ErrFull = errors.New("weir: the engine is full")

	// Reservations.

	// ErrTTL: a reservation cannot last that long.
	ErrTTL = errors.New("weir: bad time to live")
	// ErrSettled: the reservation was settled before.
	ErrSettled = errors.New("weir: the reservation is settled already")
	// ErrExpired: the reservation was not settled in time.
	ErrExpired = errors.New("weir: the reservation has expired")

	// Waiting.

	// ErrNever: the attempt can never be granted.
	ErrNever = errors.New("weir: more units than the limit ever allows")
	// ErrDeadline: the wait would outlast the context's deadline.
	ErrDeadline = errors.New("weir: the wait would outlast the deadline")

	// Stores. Only a call that failed with ErrUnavailable can be repeated without the
	// risk of a second charge.

	// ErrUnavailable: the store could not be reached, and nothing was recorded.
	ErrUnavailable = errors.New("weir: the store is unavailable")
	// ErrOutcomeUnknown: the call was sent and not answered. Its units may have been
	// recorded.
	ErrOutcomeUnknown = errors.New("weir: the outcome of the call is unknown")
	// ErrUnreadable: the store answered, but its data for this key cannot be read, and
	// nothing was recorded. Other keys work, so the store does not count as down. Errors
	// that wrap it also wrap ErrUnavailable.
	ErrUnreadable = errors.New("weir: the store holds unreadable data for the key")
)

// IsBadInput reports whether every engine would reject the same call (R14).
func IsBadInput(err error) bool {
	for _, input := range []error{ErrUnits, ErrKey, ErrInstant, ErrUnknownLimit, ErrRange, ErrKind, ErrID, ErrRequest, ErrTTL} {
		if errors.Is(err, input) {
			return true
		}
	}
	var policy *PolicyError
	return errors.As(err, &policy)
}

// PolicyError is the error of a policy that New and Policy.Plan reject.
type PolicyError struct {
	Policy  string
	Limit   string // name of the limit, or #1, #2, … if it has none; "" when the policy itself is wrong
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

// WaitError is returned by Wait and WaitN when they stop waiting.
type WaitError struct {
	Decision Decision // the last one; the zero Decision if there was none
	Cause    error    // ErrNever, ErrDeadline or the context's error
}

// Error gives the cause, the limit and the remaining wait.
func (e *WaitError) Error() string {
	switch {
	case e.Decision.At.IsZero(): // no attempt was made
		return fmt.Sprintf("weir: gave up waiting: %v", e.Cause)
	case errors.Is(e.Cause, ErrNever):
		return fmt.Sprintf("%v (limit %q)", e.Cause, e.Decision.Limit)
	}
	return fmt.Sprintf("%v (needs %v more, limit %q)", e.Cause, e.Decision.RetryAfter, e.Decision.Limit)
}

// Unwrap returns the cause.
func (e *WaitError) Unwrap() error { return e.Cause }
