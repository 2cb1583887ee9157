package resp

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// asked is what a command about a policy asks.
type asked struct {
	policy Policy
	key    weir.Key
	n      int64  // units
	at     int64  // of a refund: the instant of the grant, microseconds since 1970
	id     string // of the operation, "" if it has none
	ttl    int64  // of a reservation, in milliseconds; 0 = not said
}

// takes is what a command takes behind the dimensions.
type takes struct {
	most, needed int // numbers
	options      options
}

func check(s *Server, out []byte, args []string) []byte {
	return s.decide(out, weir.OpAttempt, args, takes{most: 1, options: takesID})
}

func peek(s *Server, out []byte, args []string) []byte {
	return s.decide(out, weir.OpPeek, args, takes{most: 1})
}

func record(s *Server, out []byte, args []string) []byte {
	return s.decide(out, weir.OpRecord, args, takes{most: 1, options: takesID})
}

// decide answers an attempt, a peek or a record with eight elements and, if the
// operation has an id, a ninth: whether it was made before.
func (s *Server) decide(out []byte, op weir.Op, args []string, takes takes) []byte {
	a, err := s.ask(args, takes)
	if err != nil {
		return s.fail(out, err)
	}
	d, err := a.policy.Decide(background, a.key, op, a.n, a.id)
	if err != nil {
		return s.fail(out, err)
	}
	if a.id == "" {
		return appendDecision(out, &d, 0)
	}
	return appendBool(appendDecision(out, &d, 1), d.Replayed)
}

// appendDecision appends a decision, and leaves room for more elements behind it.
// There may be others one day; what is here stays in its place.
func appendDecision(b []byte, d *weir.Decision, more int) []byte {
	b = appendArray(b, 8+more)
	b = appendBool(b, d.Allowed)
	b = appendInt(b, d.Granted)
	b = appendInt(b, d.Remaining)
	b = appendInt(b, answer.Millis(d.RetryAfter))
	b = appendInt(b, answer.Millis(d.ResetAfter))
	b = appendBulk(b, d.Limit)
	b = appendInt(b, d.At.UnixMicro())
	return appendBool(b, d.Degraded)
}

// refund answers with the units taken back.
func refund(s *Server, out []byte, args []string) []byte {
	a, err := s.ask(args, takes{most: 2, needed: 1, options: takesID})
	if err != nil {
		return s.fail(out, err)
	}
	n, err := a.policy.Refund(background, a.key, time.UnixMicro(a.at), a.n, a.id)
	if err != nil {
		return s.fail(out, err)
	}
	return appendInt(out, n)
}

// reset answers OK.
func reset(s *Server, out []byte, args []string) []byte {
	a, err := s.ask(args, takes{})
	if err == nil {
		err = a.policy.Reset(background, a.key)
	}
	if err != nil {
		return s.fail(out, err)
	}
	return appendOK(out)
}

// inputError is a problem of the command itself (R14).
type inputError string

func (e inputError) Error() string { return string(e) }

// ask reads the arguments: a policy, its dimensions, then up to takes.most numbers, of
// which the last may be left out unless it is needed: the instant of a grant, and
// the units; then options.
func (s *Server) ask(args []string, takes takes) (a asked, err error) {
	if a.policy, err = s.config.Policies.Policy(args[0]); err != nil {
		return a, inputError(err.Error())
	}
	rest, err := a.cutOptions(args[1:], takes.options)
	if err != nil {
		return a, err
	}
	pairs, numbers := cutNumbers(rest)
	if len(numbers) > takes.most {
		return a, inputError(answer.Shown(numbers[0]) + " has no =; write dimension=value for each of " + dimensions(a.policy.Plan()))
	}
	if len(numbers) < takes.needed {
		return a, inputError("the instant of the grant is missing: the seventh element of the answer to WEIR.CHECK")
	}
	a.n = 1
	if takes.most == 2 {
		if a.at, err = number(numbers[0], "the instant of the grant"); err != nil {
			return a, err
		}
		numbers = numbers[1:]
	}
	if len(numbers) == 1 {
		if a.n, err = number(numbers[0], "n"); err != nil {
			return a, err
		}
	}
	if p, ok := a.policy.(Varied); ok {
		a.policy, pairs = p.Vary(pairs)
	}
	a.key, err = keyOf(a.policy.Plan(), pairs)
	return a, err
}

// cutNumbers parts dimensions from the numbers behind them, which have no =.
func cutNumbers(args []string) (pairs, numbers []string) {
	n := len(args)
	for n > 0 && strings.IndexByte(args[n-1], '=') < 0 {
		n--
	}
	return args[:n], args[n:]
}

// number reads a whole number, 0 … weir.MaxUnits.
func number(text, what string) (int64, error) {
	if n, ok := digits(text); ok && n <= weir.MaxUnits {
		return n, nil
	}
	return 0, inputError(what + " must be a whole number, 0 to " + strconv.FormatInt(weir.MaxUnits, 10) + ", in digits alone, not " + answer.Shown(text) + " (a dimension is written dimension=value)")
}

// digits reads a number of up to 18 digits, as nobody writes one with a sign.
func digits(text string) (n int64, ok bool) {
	if text == "" || len(text) > 18 {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(text[i]-'0')
	}
	return n, true
}

// Unavailable is an error of a Policy or a Throttler that says what the client is told: why no
// decision could be made, and what to do.
type Unavailable string

// Error is what the client is told.
func (u Unavailable) Error() string { return string(u) }

// Refused is an error of a Policy or of Reservations that says what the client is told
// and under which code: a word in capitals, by which programs tell errors apart.
type Refused struct{ Code, Problem string }

// Error is what the client is told.
func (r *Refused) Error() string { return r.Problem }

// fail answers with an error.
func (s *Server) fail(out []byte, err error) []byte {
	var input inputError
	var told Unavailable
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		s.counts.refused.Add(1)
		return appendError(out, refused.Code, refused.Problem)
	case errors.As(err, &told):
		return appendError(out, codeUnavailable, told.Error())
	case errors.As(err, &input) || answer.IsBadInput(err):
		s.counts.refused.Add(1)
		return appendError(out, codeInput, err.Error())
	case errors.Is(err, weir.ErrFull):
		return appendError(out, codeUnavailable, "no decision: the store holds as many keys as it may, and all of them still count; try again later, or give the store more room")
	}
	return appendError(out, codeUnavailable, "no decision: the store could not be asked; try again later, or look into the log of weir")
}
