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
	n      int64 // units
	at     int64 // of a refund: the instant of the grant, microseconds since 1970
}

func check(s *Server, out []byte, args []string) []byte  { return s.decide(out, weir.OpAttempt, args) }
func peek(s *Server, out []byte, args []string) []byte   { return s.decide(out, weir.OpPeek, args) }
func record(s *Server, out []byte, args []string) []byte { return s.decide(out, weir.OpRecord, args) }

// decide answers an attempt, a peek or a record with eight elements.
func (s *Server) decide(out []byte, op weir.Op, args []string) []byte {
	a, err := s.ask(args, 1, 0)
	if err != nil {
		return s.fail(out, err)
	}
	d, err := a.policy.Decide(background, a.key, op, a.n)
	if err != nil {
		return s.fail(out, err)
	}
	return appendDecision(out, &d)
}

// appendDecision appends a decision. More elements may come behind these one day;
// what is here stays in its place.
func appendDecision(b []byte, d *weir.Decision) []byte {
	b = appendArray(b, 8)
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
	a, err := s.ask(args, 2, 1)
	if err != nil {
		return s.fail(out, err)
	}
	n, err := a.policy.Refund(background, a.key, time.UnixMicro(a.at), a.n)
	if err != nil {
		return s.fail(out, err)
	}
	return appendInt(out, n)
}

// reset answers OK.
func reset(s *Server, out []byte, args []string) []byte {
	a, err := s.ask(args, 0, 0)
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

// ask reads the arguments: a policy, its dimensions, then up to most numbers, of
// which the last may be left out unless it is needed: the instant of a grant, and
// the units.
func (s *Server) ask(args []string, most, needed int) (a asked, err error) {
	if a.policy, err = s.config.Policies.Policy(args[0]); err != nil {
		return a, inputError(err.Error())
	}
	pairs, numbers := cutNumbers(args[1:])
	if len(numbers) > most {
		return a, inputError(answer.Shown(numbers[0]) + " has no =; write dimension=value for each of " + dimensions(a.policy.Plan()))
	}
	if len(numbers) < needed {
		return a, inputError("the instant of the grant is missing: the seventh element of the answer to WEIR.CHECK")
	}
	a.n = 1
	if most == 2 {
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

// keyOf builds the plan's key of dimension=value pairs, in any order.
func keyOf(p *weir.Plan, pairs []string) (weir.Key, error) {
	dims := p.Dimensions()
	if len(pairs) == len(dims) {
		var few [4]string
		values := few[:0]
		for _, dim := range dims {
			v, ok := valueOf(dim, pairs)
			if !ok {
				break
			}
			values = append(values, v)
		}
		if len(values) == len(dims) {
			return weir.K(values...), nil
		}
	}
	return weir.Key{}, keyProblem(p, pairs)
}

func valueOf(dim string, pairs []string) (string, bool) {
	for _, pair := range pairs {
		if len(pair) > len(dim) && pair[len(dim)] == '=' && pair[:len(dim)] == dim {
			return pair[len(dim)+1:], true
		}
	}
	return "", false
}

// keyProblem says why pairs are no key of the plan.
func keyProblem(p *weir.Plan, pairs []string) error {
	named := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return inputError(answer.Shown(pair) + " has no =; write dimension=value for each of " + dimensions(p))
		}
		if _, twice := named[name]; twice {
			return inputError("the dimension " + answer.Shown(name) + " is given twice; give it once")
		}
		named[name] = value
	}
	_, err := p.Key(named)
	return err
}

// dimensions lists what a key of the plan names.
func dimensions(p *weir.Plan) string {
	if len(p.Dimensions()) == 0 {
		return "no dimension: the policy counts all callers together"
	}
	return strings.Join(p.Dimensions(), ", ")
}

// Unavailable is an error of a Policy or a Throttler that says what the client is told: why no
// decision could be made, and what to do.
type Unavailable string

// Error is what the client is told.
func (u Unavailable) Error() string { return string(u) }

// fail answers with an error.
func (s *Server) fail(out []byte, err error) []byte {
	var input inputError
	var told Unavailable
	switch {
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
