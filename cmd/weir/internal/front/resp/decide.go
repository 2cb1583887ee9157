package resp

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// background is the context of every decision: hanging up must not bypass a limit.
var background = context.Background()

// via is how every call comes in.
var via = &calls.Via{Protocol: observe.RESP}

// request returns the attempt, peek or record of the arguments.
func (a *arguments) request(op weir.Op) enforce.Request {
	return enforce.Request{Target: a.target, Op: op, N: a.n, ID: a.id, Via: via}
}

// conclude appends the answer to a decision.
func (s *Server) conclude(out []byte, a *arguments, o *enforce.Outcome, err error) []byte {
	if err == nil && o.Err != nil { // a shadow that could not decide
		s.config.Errors.NoDecision(o.Err)
	}
	switch {
	case err != nil:
		return s.fail(out, err)
	case a.lasts > 0:
		return s.answerReservation(out, *a, *o)
	case a.id != "":
		return appendBool(appendDecision(out, &o.Decision, 1), o.Decision.Replayed)
	}
	return appendDecision(out, &o.Decision, 0)
}

// appendDecision appends a decision as the first nine elements of an array with more elements:
// with an idempotency key, a tenth is whether the answer is a replay. New elements may be added
// behind these; these keep their places.
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
	n, _, err := calls.Count(background, a.policy, via, a.target, a.limit, a.needed)
	return appendInt(out, n), err
}

// refund answers with the number of refunded units.
func refund(_ *Server, out []byte, a arguments) ([]byte, error) {
	r := a.request(weir.OpRefund)
	r.From = time.UnixMicro(a.needed)
	o, err := a.policy.Decide(background, &r)
	return appendInt(out, o.Granted), err
}

// reset answers OK.
func reset(_ *Server, out []byte, a arguments) ([]byte, error) {
	r := a.request(engine.Reset)
	_, err := a.policy.Decide(background, &r)
	return appendOK(out), err
}
