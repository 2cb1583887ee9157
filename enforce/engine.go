package enforce

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy"
)

// Engine returns the rule as an engine, for front ends that bring their own plan of
// the policy: whatever its numbers are, those decide that apply to the key. What is
// not enforced is allowed. What a shadow decides, or why it cannot, goes to watched,
// which may be nil.
//
// A plan that wants all or nothing of a policy that grants in part gets that.
func (r *Rule) Engine(watched func(Request, Outcome)) (weir.Engine, error) {
	e := &engine{rule: r, plan: None, watched: watched}
	if r.Mode == weir.Partial {
		whole := *r.Policy
		whole.Mode = weir.AllOrNothing
		var err error
		if e.whole, err = NewRule(&whole, r.engine); err != nil {
			return nil, err
		}
	}
	return e, nil
}

type engine struct {
	rule    *Rule
	whole   *Rule // of a policy of mode Partial, otherwise nil
	plan    int   // of every key, unless a dimension names it
	watched func(Request, Outcome)
}

// Under returns the engine for keys whose value of PlanBy is that one.
func (e *engine) Under(value string) weir.Engine {
	plan := e.rule.TierOf(value)
	if plan == e.plan {
		return e
	}
	c := *e
	c.plan = plan
	return &c
}

// of is the rule for a plan.
func (e *engine) of(p *weir.Plan) *Rule {
	if e.whole != nil && p.Mode() == weir.AllOrNothing {
		return e.whole
	}
	return e.rule
}

// Decide answers as Rule.Decide does.
func (e *engine) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	r := e.of(p)
	ask := Request{Target: r.TargetOfKey(k, e.plan), Op: a.Op, N: a.N, At: a.At, States: a.States, ID: a.ID}
	o, err := r.Decide(ctx, &ask)
	if r.Shadow && err == nil && e.watched != nil {
		e.watched(ask, o)
	}
	return o.Decision, err
}

// Refund takes back what an attempt was charged: nothing, where only reports are.
func (e *engine) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	if e.rule.ChargeOn == policy.Reported {
		return 0, nil
	}
	l := e.limiter(p, &k, now)
	return e.rule.engine.Refund(ctx, l.Plan(), k, at, n, now)
}

// Count returns the units recorded in limit i.
func (e *engine) Count(ctx context.Context, p *weir.Plan, k weir.Key, i int, last, now int64) (int64, error) {
	return e.rule.engine.Count(ctx, e.limiter(p, &k, now).Plan(), k, i, last, now)
}

// Blocks reports whether a refused attempt may begin a block, so that one which was
// only looked at must still be made.
func (e *engine) Blocks() bool { return e.rule.blocks != nil }

// Reset forgets the histories of the key, and ends its blocks.
func (e *engine) Reset(ctx context.Context, p *weir.Plan, k weir.Key) error {
	return e.rule.Reset(ctx, k)
}

// limiter is that of the numbers that apply to the key.
func (e *engine) limiter(p *weir.Plan, k *weir.Key, now int64) *weir.Limiter {
	r := e.of(p)
	whose := r.TargetOfKey(*k, e.plan)
	return r.Limiter(&whose, now)
}
