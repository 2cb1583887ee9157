package enforce

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// Target is the key that a request counts for, and the plan that its values select.
type Target struct {
	Key  weir.Key
	Plan int // from Rule.PlanOf; 0 for none
}

// Pair is the value of a dimension, or of plan-by.
type Pair = policy.Dimension

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
	Via    any               // how the call came in; only the Handle uses it
}

// as returns the request of a limiter for op: an attempt, a peek or a record.
func (a *Request) as(op weir.Op) weir.Request {
	return weir.Request{Op: op, N: a.N, At: a.At, States: a.States, ID: a.ID}
}

// Outcome is a decision, with the parts of the file that made it.
type Outcome struct {
	*variation
	weir.Decision // to be enforced; a shadow allows every attempt

	// Applied holds the parts of the file that made the decision, besides its limits: Plan,
	// Override with its end Until, Shadow with the decision Would that it does not enforce,
	// Blocked, the end of a block, and Warnings, the names of limits. Zero means that none did.
	Applied answer.Applied

	// Err is the reason why the engine could not decide for a shadow. Decision allows
	// the attempt all the same.
	Err error
}

// Handle receives the calls of one policy. It is safe for concurrent use.
type Handle interface {
	// Observe receives a call after it was made. It does not block, and keeps no States.
	Observe(c Call)
}

// Call is a call with its outcome.
type Call struct {
	Request Request
	Outcome Outcome   // without an Err
	Err     error     // as Rule.Decide returned it
	Began   time.Time // by the clock of this process
	Took    time.Duration
	Index   int // among calls that were made in one step: Took is the duration of all of them
}

// Target puts values, each of another name, in the order of the policy's dimensions. Every
// dimension must have a value; the only other value allowed is that of plan-by. The error is
// a [weir.InputError] and names the missing or unknown dimension (R14).
func (r *Rule) Target(values []Pair) (Target, error) {
	var few [4]string
	ordered := few[:0]
	for _, name := range r.Compiled.Dimensions {
		i := slices.IndexFunc(values, func(v Pair) bool { return v.Name == name })
		if i < 0 {
			return Target{}, r.keyError(values)
		}
		ordered = append(ordered, values[i].Value)
	}
	t, expected := Target{}, len(r.Compiled.Dimensions)
	if i := slices.IndexFunc(values, func(v Pair) bool { return v.Name == r.PlanBy }); i >= 0 && r.PlanBy != "" {
		if len(values[i].Value) > weir.MaxValueBytes {
			return Target{}, r.keyError(values)
		}
		t.Plan = r.PlanOf(values[i].Value)
		if r.planAt < 0 {
			expected++
		}
	}
	if len(values) != expected {
		return Target{}, r.keyError(values)
	}
	t.Key = weir.K(ordered...)
	return t, nil
}

// keyError returns the reason why values do not match the policy's dimensions.
func (r *Rule) keyError(values []Pair) error {
	named := make(map[string]string, len(values))
	for _, v := range values {
		if v.Name != r.PlanBy || r.PlanBy == "" || r.planAt >= 0 {
			named[v.Name] = v.Value
		} else if len(v.Value) > weir.MaxValueBytes {
			return engine.Input("key", "the value of %q is %d bytes long; at most %d are allowed", r.PlanBy, len(v.Value), weir.MaxValueBytes)
		}
	}
	_, err := r.Compiled.Key(named)
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

// Decide makes a call by its Op, and passes it to the Handle:
//
//   - An attempt, a peek or a record is decided. A shadow allows every attempt, also one that
//     the engine cannot decide: then Outcome.Err has the reason.
//   - A refund takes units back; Granted is their number.
//   - A count (engine.Count) returns the units of a limit in a span as Granted.
//   - A reset (engine.Reset) deletes the histories of the key and ends its blocks.
//
// The error is that of [weir.Limiter.Decide]: a is wrong (R14), or the engine cannot decide.
func (r *Rule) Decide(ctx context.Context, a *Request) (Outcome, error) {
	if r.Handle == nil {
		return r.decide(ctx, a)
	}
	began := time.Now()
	o, err := r.decide(ctx, a)
	r.Handle.Observe(Call{Request: *a, Outcome: o, Err: err, Began: began, Took: time.Since(began)})
	return o, err
}

// decide is Decide without the Handle.
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
			err = r.blocks.combined.Reset(ctx, r.blocks.combined.keyOf(&a.Key))
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

// decideLimits decides by the limits alone, without blocks and shadow.
func (v *variation) decideLimits(ctx context.Context, op weir.Op, a *Request) (weir.Decision, error) {
	if op == weir.OpAttempt && a.At.IsZero() && a.States == nil && a.ID == "" {
		return v.Limiter.AllowN(ctx, a.Key, a.N) // the fast path of a Limiter
	}
	return v.Limiter.Decide(ctx, a.Key, a.as(op))
}

// crosses reports whether taking units brought the use of a limit from below percent of its
// capacity to that share or above (R5). used is the use afterwards. All numbers are at most
// 2^52, so the products fit.
func crosses(used, units, capacity, percent int64) bool {
	share := capacity * percent
	return (used-units)*100 < share && used*100 >= share
}

// withStates returns a, with room for the states that its warnings need: the Remaining of a
// decision is that of several limits, or of a block.
func (r *Rule) withStates(op weir.Op, a *Request) *Request {
	if a.States != nil || r.WarnPercents == nil || !r.charges(op, a.N) || len(r.Limits) == 1 && r.blocks == nil {
		return a
	}
	with := *a
	with.States = make([]weir.LimitState, len(r.Limits))
	return &with
}

// charges reports whether a request can carry a warning: an attempt, or the record of a
// policy that counts reports.
func (r *Rule) charges(op weir.Op, n int64) bool {
	return n > 0 && (op == weir.OpAttempt || op == weir.OpRecord && r.Reported)
}

// warn sets the warnings of a new decision. states are those of the limits, unless the
// decision has them. units returns the units that a grant took of a limit.
func (r *Rule) warn(o *Outcome, op weir.Op, n int64, states []weir.LimitState, units func(l *engine.Limit) int64) {
	d := &o.Decision
	if r.WarnPercents == nil || !r.charges(op, n) || !d.Allowed || d.Degraded || d.Replayed {
		return
	}
	limits := o.Limiter.Compiled().Limits
	for i, percent := range r.WarnPercents {
		l, used := &limits[i], limits[i].Capacity-d.Remaining
		if states != nil {
			if states[i].Name == "" { // unknown
				continue
			}
			used = states[i].Used
		}
		if percent > 0 && crosses(used, units(l), l.Capacity, int64(percent)) {
			o.Applied.Warnings = append(o.Applied.Warnings, l.Name)
		}
	}
}

// granted returns the units that the decision took of a limit.
func (o *Outcome) granted(l *engine.Limit) int64 { return l.Units(o.Decision.Granted) }
