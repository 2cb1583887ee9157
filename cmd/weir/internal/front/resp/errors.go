package resp

import (
	"cmp"
	"errors"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/serving"
)

// Codes of errors, by which programs tell them apart.
const (
	codeInput       = "ERR"         // the command is wrong; nothing was charged (R14)
	codeUnavailable = "UNAVAILABLE" // no decision could be made (R15)

	codeSettled = "SETTLED" // the reservation was settled before, with other units; nothing was changed
	codeExpired = "EXPIRED" // the reservation has expired; the units stay
)

// inputError is a problem of the command itself (R14).
type inputError string

func (e inputError) Error() string { return string(e) }

// Unwrap returns weir.ErrInput.
func (e inputError) Unwrap() error { return weir.ErrInput }

// errorCodes are the codes of errors, by the first that an error wraps. Bad input has the
// error's own text. That of the store is not sent: it may hold secrets.
var errorCodes = []errorCode{
	{weir.ErrInput, codeInput, ""},
	{weir.ErrOverflow, codeInput, ""},
	{weir.ErrSettled, codeSettled, ""},
	{weir.ErrExpired, codeExpired, ""},
	{serving.ErrBusy, codeUnavailable, "no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir"},
	{weir.ErrFull, codeUnavailable, "no decision: the store is full of keys that still count; try again later, or give the store more room"},
}

type errorCode struct {
	err        error
	code, text string
}

// fail appends the reply for an error. It counts bad input and logs errors of the store.
func (s *Server) fail(out []byte, err error) []byte {
	code, text := codeUnavailable, "no decision: the store did not answer; try again later, or see the log of weir"
	if i := slices.IndexFunc(errorCodes, func(e errorCode) bool { return errors.Is(err, e.err) }); i >= 0 {
		code, text = errorCodes[i].code, cmp.Or(errorCodes[i].text, err.Error())
	}
	switch {
	case code != codeUnavailable:
		s.Counts.Rejected.Add(1)
	case !errors.Is(err, serving.ErrBusy):
		s.config.Errors.NoDecision(err)
	}
	return appendError(out, code, text)
}
