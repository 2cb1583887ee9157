package enforce

import (
	"context"
	"maps"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
)

// Target is the key that a request counts for, and the plan that its values select.
type Target struct {
	Key  weir.Key
	Plan int // from Rule.PlanOf; 0 for none
}

// Lookup is a key by the names of its dimensions, each of them once, with the value of
// plan-by if the request has one. It is a struct and not an interface, so that the
// variables that the functions capture stay on the stack.
type Lookup struct {
	Count int // the number of values
	Value func(name string) (value string, ok bool)
	Map   func() map[string]string // for error messages
}

// Request is one call of a rule.
type Request struct {
	Target
	Op     weir.Op           // OpAttempt, OpPeek, OpRecord, OpRefund, engine.Count or engine.Reset
	N      int64             // units
	At     time.Time         // as weir.Request.At; zero = now
	States []weir.LimitState // nil, or one for each limit of the policy, which the engine fills
	ID     string            // the idempotency key, as weir.Request.ID
	From   time.Time         // of a refund: the instant of the grant
	Limit  string            // of a count: the limit
	Last   time.Duration     // of a count: the span
	Via    any               // how the call came in; only the Observer uses it
}

// Outcome is a decision, with the parts of the file that made it.
type Outcome struct {
	*variation
	weir.Decision // to be enforced; a shadow allows every attempt
	Applied       Applied

	// Err is the reason why the engine could not decide for a shadow. Decision allows
	// the attempt all the same.
	Err error
}

// Applied holds the parts of a policy file that made a decision, besides its limits: Plan,
// Override with its end Until, Shadow with the decision Would that it does not enforce,
// Blocked, the end of a block, and Warnings, the names of limits. The zero Applied means that
// none did.
type Applied = answer.Applied

// TargetOf is [Rule.Target] of a map.
func (r *Rule) TargetOf(values Values) (Target, error) {
	return r.Target(Lookup{Count: len(values),
		Value: func(name string) (string, bool) { v, ok := values[name]; return v, ok },
		Map:   func() map[string]string { return values }})
}

// Target puts values in the order of the policy's dimensions. Every dimension must have
// a value; the only other value allowed is that of plan-by. The error is a
// [weir.InputError] and names the missing or unknown dimension (R14).
func (r *Rule) Target(values Lookup) (Target, error) {
	var few [4]string
	ordered := few[:0]
	for _, name := range r.dimensions {
		v, ok := values.Value(name)
		if !ok {
			return Target{}, r.keyError(values.Map())
		}
		ordered = append(ordered, v)
	}
	t, expected := Target{}, len(r.dimensions)
	if r.PlanBy != "" {
		if v, ok := values.Value(r.PlanBy); ok {
			if len(v) > weir.MaxValueBytes {
				return Target{}, r.keyError(values.Map())
			}
			t.Plan = r.PlanOf(v)
			if r.planAt < 0 {
				expected++
			}
		}
	}
	if values.Count != expected {
		return Target{}, r.keyError(values.Map())
	}
	t.Key = weir.K(ordered...)
	return t, nil
}

// keyError returns the reason why values do not match the policy's dimensions.
func (r *Rule) keyError(values map[string]string) error {
	if v, ok := values[r.PlanBy]; ok && r.PlanBy != "" && r.planAt < 0 {
		if len(v) > weir.MaxValueBytes {
			return engine.Input("key", "the value of %q is %d bytes long; at most %d are allowed", r.PlanBy, len(v), weir.MaxValueBytes)
		}
		values = maps.Clone(values)
		delete(values, r.PlanBy)
	}
	_, err := r.Compiled.Key(values)
	return err
}

// TargetOfKey returns the target of a key with its values in the order of the dimensions.
// plan is a result of [Rule.PlanOf], or 0. It is ignored if a dimension selects the plan.
func (r *Rule) TargetOfKey(key weir.Key, plan int) Target {
	if r.PlanBy != "" && r.planAt >= 0 && r.planAt < key.Len() {
		plan = r.PlanOf(key.Value(r.planAt))
	}
	return Target{Key: key, Plan: plan}
}

// decide is Decide without the Observer.
func (r *Rule) decide(ctx context.Context, a *Request) (o Outcome, err error) {
	if a.Op > weir.OpRecord {
		return r.change(ctx, a)
	}
	op := r.begin(&o, a)
	if r.WarnPercents != nil {
		a = r.withStates(op, a)
	}
	if r.blocks == nil {
		o.Decision, err = o.decideLimits(ctx, op, a)
	} else {
		o.Decision, err = r.decideWithBlocks(ctx, &o, op, a)
	}
	if r.WarnPercents != nil && err == nil {
		r.warn(&o, op, a.N, a.States, o.granted)
	}
	if r.Shadow {
		err = r.finish(&o, a, err)
	}
	return o, err
}

// change makes a refund, a count or a reset. Plans, overrides, shadows and blocks share the
// histories, so they change none of these.
func (r *Rule) change(ctx context.Context, a *Request) (o Outcome, err error) {
	o.variation = r.choose(&a.Key, a.Plan, a.At)
	l := o.Limiter
	if !a.At.IsZero() {
		l = l.At(a.At)
	}
	switch a.Op {
	case engine.Count:
		o.Granted, err = l.Count(ctx, a.Key, a.Limit, a.Last)
	case engine.Reset:
		if err = l.Reset(ctx, a.Key); err == nil && r.blocks != nil {
			err = r.blocks.combined.Reset(ctx, project(&a.Key, r.blocks.combinedKey))
		}
	default:
		o.Decision, err = l.Decide(ctx, a.Key, weir.Request{Op: a.Op, From: a.From, N: a.N, ID: a.ID})
	}
	return o, err
}

// begin chooses the numbers for a, and returns the op that the engine gets.
func (r *Rule) begin(o *Outcome, a *Request) weir.Op {
	o.variation = r.choose(&a.Key, a.Plan, a.At)
	o.Applied.Plan = o.Plan
	if by := o.Override; by != nil {
		o.Applied.Override, o.Applied.Until = by.Why, by.Until
	}
	if a.Op == weir.OpAttempt && r.Reported {
		return weir.OpPeek
	}
	return a.Op
}

// finish turns the engine's decision, or its error, into that of a shadow.
func (r *Rule) finish(o *Outcome, a *Request, err error) error {
	if !r.Shadow || a.Op == weir.OpRecord {
		return err
	}
	if err != nil {
		if answer.IsBadInput(err) {
			return err
		}
		o.Err = err
		o.Decision = weir.Decision{Allowed: true, Granted: a.N, At: instant(a.At), Degraded: true}
	}
	o.Applied.Shadow, o.Applied.Would = true, o.Decision
	o.Decision.Allowed, o.Decision.Granted, o.Decision.RetryAfter, o.Decision.Limit = true, a.N, 0, ""
	o.Decision.Cached = false // a cached decision never allows (R8)
	return nil
}

// choose returns the variation of a key at an instant; the zero time is now. plan is a result
// of PlanOf.
func (r *Rule) choose(key *weir.Key, plan int, at time.Time) *variation {
	if plan == 0 && len(r.overrides) == 0 {
		return r.base
	}
	override := r.overrideOf(key, at)
	if override != 0 && r.Definition.Overrides[override-1].Plan != "" {
		plan = r.plans[r.Definition.Overrides[override-1].Plan]
	}
	if plan == 0 && override == 0 {
		return r.base
	}
	return r.variationOf(plan, override)
}

// decideLimits decides by the limits alone, without blocks and shadow.
func (v *variation) decideLimits(ctx context.Context, op weir.Op, a *Request) (weir.Decision, error) {
	if op == weir.OpAttempt && a.At.IsZero() && a.States == nil && a.ID == "" {
		return v.Limiter.AllowN(ctx, a.Key, a.N) // the fast path of a Limiter
	}
	return v.Limiter.Decide(ctx, a.Key, weir.Request{Op: op, N: a.N, At: a.At, States: a.States, ID: a.ID})
}

// Limiter returns the limiter with the numbers of a target at an instant, for refunds and
// counts. The zero time is now.
func (r *Rule) Limiter(t *Target, at time.Time) *weir.Limiter {
	return r.choose(&t.Key, t.Plan, at).Limiter
}
