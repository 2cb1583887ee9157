package weir

import (
	"context"
	"fmt"
)

// AllowOnce is [Limiter.AllowN] with an idempotency key. A caller that does not know the
// outcome of a call ([ErrOutcomeUnknown]) repeats it with the same id, and is charged once.
//
// The repeated call returns the first decision unchanged, with Replayed. This holds for
// the same policy, key and id, for as long as [Plan.IdempotencyTTL]. A denial records
// nothing (R4), so its id is not remembered and a repeated call is decided anew. In
// [CountDenied] a denial is recorded and remembered. An id that was used with other
// units or for a record returns [ErrID].
//
// The id is 1 … MaxIDBytes arbitrary bytes, such as a UUID or an order number. Choose it
// before the first call and store it with the operation. Refund and Reset do not forget
// it: they change histories, not earlier answers.
//
// A record or a refund takes an id in its [Request] ([Limiter.Decide]). A refund that took
// nothing is not remembered.
func (l *Limiter) AllowOnce(ctx context.Context, key Key, n int64, id string) (d Decision, err error) {
	if id == "" {
		return d, fmt.Errorf("%w: it is empty; give each operation an id of its own", ErrID)
	}
	err = l.decide(ctx, &key, &Request{Op: OpAttempt, N: n, ID: id}, &d)
	return d, err
}

// refundOnce calls e.RefundOnce if there is an id, otherwise e.Refund.
func refundOnce(ctx context.Context, e Engine, p *Plan, k Key, at, n, now int64, id string) (int64, error) {
	if id == "" {
		return e.Refund(ctx, p, k, at, n, now)
	}
	if err := (&Request{ID: id}).check(p); err != nil {
		return 0, err
	}
	if once, ok := e.(RefundOnceEngine); ok {
		return once.RefundOnce(ctx, p, k, at, n, now, id)
	}
	return 0, fmt.Errorf("%w: an engine of type %T does not remember refunds; leave the id out", ErrID, e)
}

// records reports whether the decision d on r recorded anything, so that it must be
// remembered.
func (p *Plan) records(r *Request, d *Decision) bool {
	if r.Op == OpRefund {
		return d.Granted > 0
	}
	return r.Op == OpRecord || d.Granted > 0 || p.Mode() == CountDenied
}

// errOtherOperation is the error of an id that was used for another operation.
func errOtherOperation(before, now *Request) error {
	return fmt.Errorf("%w: it names %s of %d units, and now %s of %d; give each operation an id of its own",
		ErrID, before.Op.describe(), before.N, now.Op.describe(), now.N)
}

// describe names the op in a sentence.
func (op Op) describe() string {
	switch op {
	case OpRecord:
		return "a record"
	case OpRefund:
		return "a refund"
	}
	return "an attempt"
}
