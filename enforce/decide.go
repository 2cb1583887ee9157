package enforce

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// Ask is one attempt, peek or record.
type Request struct {
	Target
	Op     weir.Op
	N      int64             // units
	At     int64             // microseconds since 1970, or weir.Now
	States []weir.LimitState // nil, or as long as the policy has limits
	ID     string            // as weir.Request.ID
}

// Outcome is a decision, and what of the policy it came from.
type Outcome struct {
	*Variation
	Decision weir.Decision // to be obeyed
	Applied  answer.Applied

	// Err is why a shadow policy could not decide. Decision lets pass all the same.
	Err error
}

// Decide answers a. Bad input is an error (R14), and so is an engine that cannot
// decide, unless the policy is a shadow.
func (r *Rule) Decide(ctx context.Context, a *Request) (o Outcome, err error) {
	o.Variation = r.Choose(&a.Key, a.Tier, a.At)
	o.Applied.Plan = o.Variation.Tier
	if by := o.Variation.Override; by != nil {
		o.Applied.Override, o.Applied.Until = by.Why, by.Until
	}
	if r.blocks == nil {
		o.Decision, err = o.ask(ctx, r.op(a.Op), a)
	} else {
		o.Decision, err = r.decideBlocked(ctx, &o, a)
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

// op is what the engine is asked: where only reports are charged, an attempt looks.
func (r *Rule) op(op weir.Op) weir.Op {
	if r.Reports() && op == weir.OpAttempt {
		return weir.OpPeek
	}
	return op
}

// ask asks the engine, at its own instant or that of the caller.
func (v *Variation) ask(ctx context.Context, op weir.Op, a *Request) (weir.Decision, error) {
	if op == weir.OpAttempt && a.At == weir.Now && a.States == nil && a.ID == "" {
		return v.Limiter.AllowN(ctx, a.Key, a.N) // the shortest way
	}
	return v.Limiter.Decide(ctx, a.Key, weir.Request{Op: op, N: a.N, At: a.At, States: a.States, ID: a.ID})
}

// Limiter is that of the numbers that apply to a subject at an instant: for
// refunds and counts.
func (r *Rule) Limiter(s *Target, at int64) *weir.Limiter {
	return r.Choose(&s.Key, s.Tier, at).Limiter
}
