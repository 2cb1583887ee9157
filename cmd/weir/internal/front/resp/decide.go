package resp

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
)

// background is the context of every decision: hanging up must not bypass a limit.
var background = context.Background()

// decideOp returns the function for attempts, peeks or records. It answers with nine
// elements and, with an idempotency key, a tenth: whether the answer is a replay.
func decideOp(op weir.Op) func(s *Server, out []byte, a arguments) ([]byte, error) {
	return func(s *Server, out []byte, a arguments) ([]byte, error) {
		o, err := s.apply(op, &a)
		switch d := &o.Decision; {
		case err != nil:
			return nil, err
		case a.id == "":
			return appendDecision(out, d, 0), nil
		default:
			return appendBool(appendDecision(out, d, 1), d.Replayed), nil
		}
	}
}

// apply decides an attempt, a peek or a record.
func (s *Server) apply(op weir.Op, a *arguments) (enforce.Outcome, error) {
	o, err := a.policy.Apply(background, observe.RESP, "", &enforce.Request{Target: a.target, Op: op, N: a.n, ID: a.id})
	if err == nil && o.Err != nil { // a shadow that could not decide
		s.config.Errors.NoDecision(o.Err)
	}
	return o, err
}

// appendDecision appends a decision as the first elements of an array with more elements.
// New elements may be added behind these; these keep their places.
func appendDecision(b []byte, d *weir.Decision, more int) []byte {
	b = appendArray(b, 9+more)
	b = appendBool(b, d.Allowed)
	b = appendInt(b, d.Granted)
	b = appendInt(b, d.Remaining)
	b = appendInt(b, answer.Millis(d.RetryAfter))
	b = appendInt(b, answer.Millis(d.ResetAfter))
	b = appendBulk(b, d.Limit)
	b = appendInt(b, d.At.UnixMicro())
	b = appendBool(b, d.Degraded)
	return appendBool(b, d.Cached)
}

// count answers with the units of the span.
func count(_ *Server, out []byte, a arguments) ([]byte, error) {
	n, _, err := a.policy.Count(background, observe.RESP, &a.target, a.limit, a.needed)
	return appendInt(out, n), err
}

// refund answers with the number of refunded units.
func refund(_ *Server, out []byte, a arguments) ([]byte, error) {
	n, err := a.policy.Refund(background, observe.RESP, &a.target, time.UnixMicro(a.needed), a.n, a.id)
	return appendInt(out, n), err
}

// reset answers OK.
func reset(_ *Server, out []byte, a arguments) ([]byte, error) {
	return appendOK(out), a.policy.Reset(background, observe.RESP, a.target.Key)
}
