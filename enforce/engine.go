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
	e := &engine{rule: r, plan: None, observer: observer}
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

type engine struct {
	rule     *Rule
	whole    *Rule    // the rule in mode AllOrNothing, if its own mode is Partial; otherwise nil
	plan     int      // of every key, unless a dimension selects it
	observer Observer // nil = none
}

// Under returns the engine for keys with that value of plan-by.
func (e *engine) Under(value string) engine.Engine {
	plan := e.rule.PlanOf(value)
	if plan == e.plan {
		return e
	}
	c := *e
	c.plan = plan
	return &c
}

// ruleFor returns the rule in the mode of a compiled policy.
func (e *engine) ruleFor(p *engine.Compiled) *Rule {
	if e.whole != nil && p.Mode == weir.AllOrNothing {
		return e.whole
	}
	return e.rule
}

// Decide decides as [Rule.Decide] does.
func (e *engine) Decide(ctx context.Context, p *engine.Compiled, k weir.Key, a weir.Request) (weir.Decision, error) {
	o, err := e.decideRequest(ctx, p, k, a)
	return o.Decision, err
}

// DecideWarned is Decide with the names of the limits of which the decision carries a warning.
func (e *engine) DecideWarned(ctx context.Context, p *engine.Compiled, k weir.Key, a weir.Request) (d weir.Decision, warnings []string, err error) {
	o, err := e.decideRequest(ctx, p, k, a)
	return o.Decision, o.Applied.Warnings, err
}

func (e *engine) decideRequest(ctx context.Context, p *engine.Compiled, k weir.Key, a weir.Request) (Outcome, error) {
	r := e.ruleFor(p)
	request := Request{Target: r.TargetOfKey(k, e.plan), Op: a.Op, N: a.N, At: a.At, States: a.States, ID: a.ID}
	o, err := r.Decide(ctx, &request)
	if err == nil && e.observer != nil {
		e.observer.Decided(request, o)
	}
	return o, err
}

// Refund returns the units of an attempt, which are 0 under count: reported.
func (e *engine) Refund(ctx context.Context, p *engine.Compiled, k weir.Key, at, n, now int64) (int64, error) {
	if e.rule.Reported {
		return 0, nil
	}
	took, err := e.rule.engine.Refund(ctx, e.limiter(p, &k, now).Plan(), k, at, n, now)
	if err == nil && took > 0 && e.observer != nil {
		e.observer.Refunded(e.ruleFor(p).TargetOfKey(k, e.plan), at, n)
	}
	return took, err
}

// Count returns the units recorded in limit i.
func (e *engine) Count(ctx context.Context, p *engine.Compiled, k weir.Key, i int, last, now int64) (int64, error) {
	return e.rule.engine.Count(ctx, e.limiter(p, &k, now).Plan(), k, i, last, now)
}

// Blocks reports whether a denied attempt may begin a block, so that a front end must
// follow a denied peek by the attempt itself.
func (e *engine) Blocks() bool { return e.rule.blocks != nil }

// Reset deletes the histories of the key and ends its blocks.
func (e *engine) Reset(ctx context.Context, p *engine.Compiled, k weir.Key) error {
	return e.rule.Reset(ctx, k)
}

// limiter returns the limiter with the numbers that apply to the key.
func (e *engine) limiter(p *engine.Compiled, k *weir.Key, now int64) *weir.Limiter {
	r := e.ruleFor(p)
	t := r.TargetOfKey(*k, e.plan)
	at := time.Time{}
	if now != weir.Now {
		at = time.UnixMicro(now)
	}
	return r.Limiter(&t, at)
}
