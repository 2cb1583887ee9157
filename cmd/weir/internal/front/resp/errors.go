package resp

import (
	"errors"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// Codes of errors, by which programs tell them apart.
const (
	codeInput       = "ERR"         // the command is wrong; nothing was charged (R14)
	codeUnavailable = "UNAVAILABLE" // no decision could be made (R15)

	CodeSettled = "SETTLED" // the reservation was settled before, with other units; nothing was changed
	CodeExpired = "EXPIRED" // the reservation has expired; the units stay
)

// inputError is a problem of the command itself (R14).
type inputError string

func (e inputError) Error() string { return string(e) }

// Unavailable is an error of a Policy. Its text is sent to the client: the reason why there is
// no decision, and the next step.
type Unavailable string

// Error returns the text for the client.
func (u Unavailable) Error() string { return string(u) }

// Rejected is an error of a Policy or of Reservations with a code. Both are sent to the
// client.
type Rejected struct{ Code, Problem string }

// Error returns the text for the client.
func (r *Rejected) Error() string { return r.Problem }

// fail appends the reply for an error.
func (s *Server) fail(out []byte, err error) []byte {
	var input inputError
	var unavailable Unavailable
	var rejected *Rejected
	switch {
	case errors.As(err, &rejected):
		s.Counts.Rejected.Add(1)
		return appendError(out, rejected.Code, rejected.Problem)
	case errors.As(err, &unavailable):
		return appendError(out, codeUnavailable, unavailable.Error())
	case errors.As(err, &input) || answer.IsBadInput(err):
		s.Counts.Rejected.Add(1)
		return appendError(out, codeInput, err.Error())
	case errors.Is(err, weir.ErrFull):
		return appendError(out, codeUnavailable, "no decision: the store is full of keys that still count; try again later, or give the store more room")
	}
	return appendError(out, codeUnavailable, "no decision: the store did not answer; try again later, or see the log of weir")
}
