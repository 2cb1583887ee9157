package enforce

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// Observer observes the calls of a [Rule.Engine]. The strings of keys are valid during a
// call only.
type Observer interface {
	Decided(Request, Outcome)
	Refunded(t Target, at, n int64) // up to n units of the grant at an instant in microseconds since 1970, or engine.Oldest
}

// Engine returns the rule as an engine, for front ends that compile the policy
// themselves. The numbers that apply to the key decide, not the compiled ones. A shadow
// allows every attempt. observer, unless it is nil, observes all calls without an error.
//
// A Partial policy that was compiled as AllOrNothing is decided all or nothing.
func (r *Rule) Engine(observer Observer) (engine.Engine, error) {
	e := &ruleEngine{rule: r, plan: None, observer: observer}
	if r.Mode == weir.Partial {
		whole := *r.Definition
		whole.Mode = weir.AllOrNothing
		var err error
		if e.whole, err = NewRule(&whole, r.engine); err != nil {
			return nil, err
		}
	}
	return e, nil
}

type ruleEngine struct {
	rule     *Rule
	whole    *Rule    // the rule in mode AllOrNothing, if its own mode is Partial; otherwise nil
	plan     int      // the plan of every key, unless a dimension selects it
	observer Observer // nil = none
}

// Under returns the engine for keys with that value of plan-by.
func (e *ruleEngine) Under(value string) engine.Engine {
	plan := e.rule.PlanOf(value)
	if plan == e.plan {
		return e
	}
	c := *e
	c.plan = plan
	return &c
}

// ruleFor returns the rule in the mode of a compiled policy.
func (e *ruleEngine) ruleFor(p *engine.Compiled) *Rule {
	if e.whole != nil && p.Mode == weir.AllOrNothing {
		return e.whole
	}
	return e.rule
}

// Do decides attempts, peeks and records as [Rule.Decide] does. A refund returns the units of
// an attempt, which are 0 under count: reported. A reset also ends the blocks of the key.
func (e *ruleEngine) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			e.DecideWarned(ctx, c)
		}
	}
}

// DecideWarned decides a call as Do does, and returns the names of the limits of which the
// decision carries a warning.
func (e *ruleEngine) DecideWarned(ctx context.Context, c *engine.Call) (warnings []string) {
	switch r := e.ruleFor(c.Rules); c.Op {
	case engine.Reset:
		c.Err = r.Reset(ctx, c.Key)
	case engine.Refund, engine.Count:
		e.pass(ctx, c)
	default:
		request := Request{Target: r.TargetOfKey(c.Key, e.plan), Op: c.Op, N: c.N, At: instantOf(c), States: c.States, ID: c.ID}
		o, err := r.Decide(ctx, &request)
		if err != nil {
			c.Fail(err)
			return nil
		}
		if e.observer != nil {
			e.observer.Decided(request, o)
		}
		d := &o.Decision
		c.Result = engine.Result{Allowed: d.Allowed, Granted: d.Granted, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
			At: d.At, Limit: d.Limit, Degraded: d.Degraded, Replayed: d.Replayed, Cached: d.Cached}
		return o.Applied.Warnings
	}
	return nil
}

// pass passes a refund or a count to the engine below, with the numbers that apply to the key.
func (e *ruleEngine) pass(ctx context.Context, c *engine.Call) {
	if c.Op == engine.Refund && e.rule.Reported {
		c.Result = engine.Result{}
		return
	}
	t := e.ruleFor(c.Rules).TargetOfKey(c.Key, e.plan)
	below := []engine.Call{*c}
	below[0].Rules, below[0].Outage = e.ruleFor(c.Rules).Limiter(&t, instantOf(c)).Compiled(), e.rule.WhenStoreIsDown
	e.rule.engine.Do(ctx, below)
	c.Result, c.Err = below[0].Result, below[0].Err
	if c.Op == engine.Refund && c.Err == nil && c.Result.Granted > 0 && e.observer != nil {
		e.observer.Refunded(t, c.From, c.N)
	}
}

// instantOf returns the instant of a call as that of a [Request].
func instantOf(c *engine.Call) time.Time {
	if !c.Given {
		return time.Time{}
	}
	return time.UnixMicro(c.At)
}

// Blocks reports whether a denied attempt may begin a block, so that a front end must
// follow a denied peek by the attempt itself.
func (e *ruleEngine) Blocks() bool { return e.rule.blocks != nil }
