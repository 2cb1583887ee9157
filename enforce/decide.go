package enforce

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// Request is one attempt, peek or record.
type Request struct {
	Target
	Op     weir.Op
	N      int64             // units
	At     int64             // microseconds since 1970, or weir.Now
	States []weir.LimitState // nil, or one for each limit of the policy, which the engine fills
	ID     string            // the idempotency key, as weir.Request.ID
}

// Outcome is a decision, with the parts of the file that made it.
type Outcome struct {
	*Variation
	weir.Decision // to be enforced; a shadow allows every attempt
	Applied       Applied

	// Err is the reason why the engine could not decide for a shadow. Decision allows
	// the attempt all the same.
	Err error
}

// Applied holds the parts of a policy file that made a decision, besides its limits. The
// zero Applied means that none did.
type Applied struct {
	Plan     string        // the plan that applied
	Override string        // the reason of the override that applied
	Until    time.Time     // the end of the override; zero if it has none
	Shadow   bool          // the decision is not enforced
	Would    weir.Decision // the decision that Shadow does not enforce
	Blocked  time.Time     // the end of the block that denies the key; zero if none does
}

// Decide decides a. The error is that of [weir.Limiter.Decide]: a is wrong (R14), or the
// engine cannot decide. A shadow turns the second into an allowed Outcome with Err.
func (r *Rule) Decide(ctx context.Context, a *Request) (o Outcome, err error) {
	o.Variation = r.Choose(&a.Key, a.Tier, a.At)
	o.Applied.Plan = o.Variation.Tier
	if by := o.Variation.Override; by != nil {
		o.Applied.Override, o.Applied.Until = by.Why, by.Until
	}
	if r.blocks == nil {
		o.Decision, err = o.decideLimits(ctx, r.charging(a.Op), a)
	} else {
		o.Decision, err = r.decideWithBlocks(ctx, &o, a)
	}
	if !r.Shadow || a.Op == weir.OpRecord {
		return o, err
	}
	if err != nil {
		if answer.IsBadInput(err) {
			return o, err
		}
		o.Err = err
		o.Decision = weir.Decision{Allowed: true, Granted: a.N, At: instant(a.At), Degraded: true}
	}
	o.Applied.Shadow, o.Applied.Would = true, o.Decision
	o.Decision.Allowed, o.Decision.Granted, o.Decision.RetryAfter, o.Decision.Limit = true, a.N, 0, ""
	return o, nil
}

// charging returns the operation for the engine: under count: reported, an attempt is a peek.
func (r *Rule) charging(op weir.Op) weir.Op {
	if r.Reports() && op == weir.OpAttempt {
		return weir.OpPeek
	}
	return op
}

// decideLimits decides by the limits alone, without blocks and shadow.
func (v *Variation) decideLimits(ctx context.Context, op weir.Op, a *Request) (weir.Decision, error) {
	if op == weir.OpAttempt && a.At == weir.Now && a.States == nil && a.ID == "" {
		return v.Limiter.AllowN(ctx, a.Key, a.N) // the fast path of a Limiter
	}
	return v.Limiter.Decide(ctx, a.Key, weir.Request{Op: op, N: a.N, At: a.At, States: a.States, ID: a.ID})
}

// Limiter returns the limiter with the numbers of a target at an instant, for refunds
// and counts.
func (r *Rule) Limiter(t *Target, at int64) *weir.Limiter {
	return r.Choose(&t.Key, t.Tier, at).Limiter
}

// Reset deletes the histories of a key and ends its blocks.
func (r *Rule) Reset(ctx context.Context, key weir.Key) error {
	if err := r.base.Limiter.Reset(ctx, key); err != nil || r.blocks == nil {
		return err
	}
	return r.blocks.combined.Reset(ctx, project(&key, r.blocks.combinedKey))
}
