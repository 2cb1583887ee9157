package weir

import (
	"context"
	"fmt"
	"time"
)

// AllowOnce is AllowN for an operation that has a name of its own: whoever does not
// know what became of a call, since its answer was lost (ErrUnknownFate), makes it
// again with the same id, and it is charged once.
//
// The second call gets the decision of the first, as it was answered then, with
// Repeated. That holds for the policy, the key and the id together, and for as long
// as Plan.IdempotencyTTL says. What was refused has left nothing behind (R4), so its id
// is not known: made again, it is decided anew. In mode CountDenied a refusal is
// recorded, and so it is known too. An id that was used for other units or for a
// record is ErrID: two operations must not share one.
//
// The id is 1 … MaxIDBytes bytes of any kind, such as a UUID, an order's number or a
// message's. Choose it before the first call, and keep it with what the operation
// is about. Neither Refund nor Reset forgets it: they change the histories, not
// what was answered.
func (l *Limiter) AllowOnce(ctx context.Context, key Key, n int64, id string) (Decision, error) {
	return l.once(ctx, key, Request{Op: OpAttempt, N: n, At: Now, ID: id})
}

// RecordOnce is Record for an operation that has a name of its own, as AllowOnce is
// AllowN.
func (l *Limiter) RecordOnce(ctx context.Context, key Key, n int64, id string) (Decision, error) {
	return l.once(ctx, key, Request{Op: OpRecord, N: n, At: Now, ID: id})
}

func (l *Limiter) once(ctx context.Context, key Key, a Request) (d Decision, err error) {
	if a.ID == "" {
		return d, errNoID
	}
	err = l.decide(ctx, &key, &a, &d)
	return d, err
}

var errNoID = fmt.Errorf("%w: it is empty; give each operation one of its own", ErrID)

// RefundOnce is Refund for an operation that has a name of its own: made again with
// the same id, instant and units within Plan.IdempotencyTTL it takes nothing more, and
// returns what it took then. A refund that took nothing has left nothing behind, so
// its id is not known. An id that was used for something else is ErrID, and so is any
// id with an engine that is no RefundOnceEngine.
func (l *Limiter) RefundOnce(ctx context.Context, key Key, at time.Time, n int64, id string) (refunded int64, err error) {
	if id == "" {
		return 0, errNoID
	}
	return l.refund(ctx, &key, at, n, Now, id)
}

// Decide answers a, for what the other methods leave out: states and an id
// together. a.At is Now, or an instant in microseconds since 1970.
func (l *Limiter) Decide(ctx context.Context, key Key, a Request) (d Decision, err error) {
	if a.At != Now && (a.At < 0 || a.At > MaxUnits) {
		return d, fmt.Errorf("%w: %d; use Now, or 0 to %d", ErrInstant, a.At, MaxUnits)
	}
	clear(a.States) // an engine that could not look leaves them as they are
	if err = l.decide(ctx, &key, &a, &d); err != nil {
		clear(a.States)
	}
	return d, err
}

// leastRemembered is how long operations are remembered at least: with windows of a
// second a retry may come when the first call counts no more, and it should not
// take another's place.
const leastRemembered = time.Minute

// Remembers is how long an operation with an id is remembered, from the instant of
// its decision: for as long as it can count in some limit, and at least a minute.
// It is what the policy says when the operation is decided; later changes do not
// matter to it.
func (p *Plan) IdempotencyTTL() time.Duration {
	longest := leastRemembered.Microseconds()
	for i := range p.limits {
		longest = max(longest, p.limits[i].Window+p.limits[i].Cell)
	}
	return time.Duration(longest) * time.Microsecond
}

// records reports whether the decision on a has left anything behind, so that it
// must not be made again.
func (p *Plan) records(a *Request, d *Decision) bool {
	if a.Op == opRefund {
		return d.Granted > 0
	}
	return a.Op == OpRecord || d.Granted > 0 || p.Mode() == CountDenied
}

// errOtherOperation is the error of an id that was used for something else.
func errOtherOperation(before, now *Request) error {
	return fmt.Errorf("%w: it names %s of %d units, and now %s of %d; give each operation an id of its own",
		ErrID, before.Op.describe(), before.N, now.Op.describe(), now.N)
}

// describe names the op in a sentence.
func (op Op) describe() string {
	switch op {
	case OpRecord:
		return "a record"
	case opRefund:
		return "a refund"
	}
	return "an attempt"
}
