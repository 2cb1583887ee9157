package engine

import (
	"cmp"
	"errors"
	"fmt"
)

// A denial is not an error (R15). An error means that no decision was possible and
// nothing changed.
var (
	// ErrInput is wrapped by each error of bad input, an *InputError or a weir.PolicyError.
	// Every engine would reject the same call (R14).
	ErrInput = errors.New("weir: bad input")

	// ErrSettled: the reservation was settled before, with another number of units. Nothing has
	// changed (R19).
	ErrSettled = errors.New("weir: the reservation is settled already")
	// ErrExpired: the reservation is unknown, its life is over, or its hold has ended. Nothing has
	// changed, and its units stay as they were granted (R19).
	ErrExpired = errors.New("weir: the reservation has expired")

	// ErrOverflow: recording would take a history above MaxUnits.
	ErrOverflow = errors.New("weir: too many units in one history")
	// ErrFull: the engine is at its cap of keys or bytes, and all histories still count, or
	// Redis is at its maxmemory. None is forgotten early, and nothing was recorded (R13).
	ErrFull = errors.New("weir: the engine is full")

	// The errors of stores follow. After them and ErrFull, only a call that failed with
	// ErrUnavailable or ErrFull can be repeated without the risk of a second charge.

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

// InputError is the error of bad input in a call. For errors.Is it matches [ErrInput], and
// &InputError{Field: "key"} if its Field is "key".
type InputError struct {
	// Field is the wrong part of the call: units, key, instant, limit, span, kind, id, request, ttl
	// or wait.
	Field string

	Problem string // the wrong value, and the next step
}

// Input returns an *InputError with that Field, and a Problem as fmt.Sprintf formats it.
func Input(field, format string, args ...any) error {
	return &InputError{field, fmt.Sprintf(format, args...)}
}

// inputs are the words for fields in errors.
var inputs = map[string]string{
	"units": "bad number of units",
	"limit": "unknown limit",
	"kind":  "the limit's kind cannot do that",
	"id":    "bad operation id",
	"ttl":   "bad time to live",
	"wait":  "bad time to wait",
}

// Error names the field before the problem.
func (e *InputError) Error() string {
	return "weir: " + cmp.Or(inputs[e.Field], "bad "+e.Field) + ": " + e.Problem
}

// Is reports whether target is ErrInput, or an InputError of the same field without a problem.
func (e *InputError) Is(target error) bool {
	t, ok := target.(*InputError)
	return target == ErrInput || ok && t.Field == e.Field && t.Problem == ""
}
