package resp

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

func check(s *Server, out []byte, args []string) []byte {
	return s.decide(out, weir.OpAttempt, args, syntax{most: 1, options: optionID})
}

func peek(s *Server, out []byte, args []string) []byte {
	return s.decide(out, weir.OpPeek, args, syntax{most: 1})
}

func record(s *Server, out []byte, args []string) []byte {
	return s.decide(out, weir.OpRecord, args, syntax{most: 1, options: optionID})
}

// decide answers an attempt, a peek or a record with eight elements and, with an
// idempotency key, a ninth: whether the answer is a replay.
func (s *Server) decide(out []byte, op weir.Op, args []string, syntax syntax) []byte {
	a, err := s.readArguments(args, syntax)
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

// appendDecision appends a decision as the first elements of an array with more elements.
// New elements may be added behind these; these keep their places.
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

// refund answers with the number of refunded units.
func refund(s *Server, out []byte, args []string) []byte {
	a, err := s.readArguments(args, syntax{most: 2, needed: 1, options: optionID})
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
	a, err := s.readArguments(args, syntax{})
	if err == nil {
		err = a.policy.Reset(background, a.key)
	}
	if err != nil {
		return s.fail(out, err)
	}
	return appendOK(out)
}
