package resp

import (
	"errors"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/internal/answer"
)

// Codes of errors, by which programs tell them apart.
const (
	codeInput       = "ERR"         // the command is wrong; nothing was charged (R14)
	codeUnavailable = "UNAVAILABLE" // no decision could be made (R15)

	codeSettled = "SETTLED" // the reservation was settled before, with other units; nothing was changed
	codeExpired = "EXPIRED" // the reservation has expired; the units stay
)

// errorCodes are the codes of errors, by the first that an error wraps. Bad input has the
// error's own text. That of the store is not sent: it may hold secrets.
var errorCodes = []answer.ForError[string]{
	answer.For(weir.ErrInput, codeInput, ""),
	answer.For(weir.ErrOverflow, codeInput, ""),
	answer.For(weir.ErrSettled, codeSettled, ""),
	answer.For(weir.ErrExpired, codeExpired, ""),
	answer.For(calls.ErrBusy, codeUnavailable, "no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir"),
	answer.For(weir.ErrFull, codeUnavailable, "no decision: the store is full of keys that still count; try again later, or give the store more room"),
	answer.For(nil, codeUnavailable, "no decision: the store did not answer; try again later, or see the log of weir"),
}

// fail appends the reply for an error. It counts bad input and logs errors of the store.
func (s *Server) fail(out []byte, err error) []byte {
	code, text := answer.ToError(err, errorCodes)
	switch {
	case code != codeUnavailable:
		s.Counts.Rejected.Add(1)
	case !errors.Is(err, calls.ErrBusy):
		s.config.Errors.NoDecision(err)
	}
	return appendError(out, code, text)
}
