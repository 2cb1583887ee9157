package resp

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// background is the context of every decision: hanging up must not bypass a limit.
var background = context.Background()

// decideOp returns the function for attempts, peeks or records. It answers with nine
// elements and, with an idempotency key, a tenth: whether the answer is a replay.
func decideOp(op weir.Op) func(out []byte, a arguments) ([]byte, error) {
	return func(out []byte, a arguments) ([]byte, error) {
		d, err := a.policy.Decide(background, a.key, op, a.n, a.id)
		switch {
		case err != nil:
			return nil, err
		case a.id == "":
			return appendDecision(out, &d, 0), nil
		}
		return appendBool(appendDecision(out, &d, 1), d.Replayed), nil
	}
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
func count(out []byte, a arguments) ([]byte, error) {
	n, err := a.policy.Count(background, a.key, a.limit, a.needed)
	return appendInt(out, n), err
}

// refund answers with the number of refunded units.
func refund(out []byte, a arguments) ([]byte, error) {
	n, err := a.policy.Refund(background, a.key, time.UnixMicro(a.needed), a.n, a.id)
	return appendInt(out, n), err
}

// reset answers OK.
func reset(out []byte, a arguments) ([]byte, error) {
	return appendOK(out), a.policy.Reset(background, a.key)
}
