package enforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/policy"
)

// Target is the key that a request counts for, and the plan that its values select.
type Target struct {
	Key  weir.Key
	Plan int // from Rule.PlanOf; 0 for none
}

// Pair is the value of a dimension, or of plan-by.
type Pair = policy.Dimension

// Pairs is a key by names, each of them once.
type Pairs []Pair

// Add returns p with another pair, or the reason why it cannot be added.
func (p Pairs) Add(name, value string) (with Pairs, problem string) {
	if slices.ContainsFunc(p, func(x Pair) bool { return x.Name == name }) {
		return p, "the dimension " + answer.Shown(name) + " is given twice; give it once"
	}
	if len(p) == weir.MaxDimensions {
		return p, fmt.Sprintf("more than %d dimensions; no policy has so many", weir.MaxDimensions)
	}
	return append(p, Pair{Name: name, Value: value}), ""
}

// Request is one call of a rule.
type Request struct {
	Target
	Op     engine.Op         // any operation of engines; the zero Op is an attempt
	N      int64             // units; for a settlement those that were used, or engine.AllUnits
	At     time.Time         // as weir.Request.At; zero = now
	States []weir.LimitState // nil, or one for each limit of the policy, which the engine fills
	ID     string            // as weir.Request.ID, or the reservation to settle or extend
	From   time.Time         // for a refund: the instant of the grant
	Limit  string            // for a count: the limit
	Last   time.Duration     // for a count: the span
	For    time.Duration     // for a block: its time from now on; 0 ends blocks
	Before int64             // for an extension by units: those before it, or engine.Unknown
	Via    any               // how the call came in; only the Handle uses it

	// Limits are, for a reset or a block, the limits. None stands for those that count by every
	// dimension.
	Limits []string

	// Reserve makes the granted units of an attempt those of a reservation that lives for TTL.
	// Without an ID it gets a random one. In Decide a TTL of 0 stands for the longest window.
	Reserve bool
	TTL     time.Duration

	// MaxWait is the longest wait of an attempt, as weir.Request.MaxWait (R18). A shadow, and an
	// attempt of 0 units, start now. Under count: reported it is bad input.
	MaxWait time.Duration
}

// records reports whether the request adds units without a decision. A record of 0 units is a
// peek (R4).
func (a *Request) records() bool { return a.Op == engine.Record && a.N > 0 }

// Outcome is a decision, with the parts of the file that made it.
type Outcome struct {
	*variation
	weir.Decision // to be enforced; a shadow allows every attempt

	// Applied holds the parts of the file that made the decision, besides its limits: Plan,
	// Override with its end Until, Shadow with the decision Would that it does not enforce,
	// Blocked, the end of the longest block that runs, and Warnings, the names of limits. Zero
	// means that none did.
	Applied answer.Applied

	// Err is the reason why the engine could not decide for a shadow. Decision allows
	// the attempt all the same.
	Err error

	Limits []string // for a reset or a block: the names of the limits that it concerned

	// Reserved is the reservation after an attempt with Reserve, a settlement or an extension; the
	// zero one if there is none.
	Reserved   engine.Reservation
	ReservedID string // its id, after an attempt that was granted

	// Reservation is the handle of Reserved after an attempt now by Decide, or nil if nothing was
	// granted.
	Reservation *weir.Reservation
}

// Handle receives the calls of one policy. It is safe for concurrent use.
type Handle interface {
	// Observe receives a call after it was made. It does not block, and keeps no States.
	Observe(c Call)
}

// Call is a call with its outcome.
type Call struct {
	Item
	Began time.Time // by the clock of this process
	Took  time.Duration
	Index int // among calls that were made in one step: Took is the duration of all of them
}

// Target puts values, each of another name, in the order of the policy's dimensions. Every
// dimension must have a value that is not empty; the only other value allowed is that of
// plan-by, and an empty one selects no plan. Addresses get their counted form. The error is a
// [weir.InputError] and names the dimension that is missing, unknown, or has a wrong value (R14);
// it is an [AddressError] for one that is not an address.
func (r *Rule) Target(values []Pair) (t Target, err error) {
	err = r.setTarget(&t, values, false)
	return t, err
}

// TargetAsWritten is Target for fronts with callers that pass requests after an error, and for
// the hashes of a recorded trace. A value that is not an address counts as it is written.
func (r *Rule) TargetAsWritten(values []Pair) (t Target, err error) {
	err = r.setTarget(&t, values, true)
	return t, err
}

// SetTarget sets the item's Target to that of [Rule.Target] or [Rule.TargetAsWritten], in its
// place: [engine.Key.Set] has the reason.
func (it *Item) SetTarget(values []Pair, asWritten bool) error {
	it.Target = Target{}
	return it.Rule.setTarget(&it.Target, values, asWritten)
}

// setTarget sets t, a zero Target.
func (r *Rule) setTarget(t *Target, values []Pair, asWritten bool) error {
	var few [4]string
	ordered := few[:0]
	for _, name := range r.Compiled.Dimensions {
		if i := slices.IndexFunc(values, func(v Pair) bool { return v.Name == name }); i >= 0 {
			ordered = append(ordered, values[i].Value)
		}
	}
	plan, expected := 0, len(ordered)
	if i := slices.IndexFunc(values, func(v Pair) bool { return v.Name == r.PlanBy }); i >= 0 &&
		r.PlanBy != "" {
		if len(values[i].Value) > weir.MaxValueBytes {
			return r.keyError(values)
		}
		plan = r.PlanOf(values[i].Value)
		if r.planAt < 0 {
			expected++
		}
	}
	if len(ordered) < len(r.Compiled.Dimensions) || len(values) != expected {
		return r.keyError(values)
	}
	if r.addresses != nil {
		if err := r.unify(ordered, asWritten); err != nil {
			return err
		}
	}
	t.Key.Set(ordered...)
	t.Plan = plan
	return r.Compiled.CheckKey(&t.Key)
}

// ResetTarget is [Rule.Target] for a reset. If it names limits, only the dimensions that these
// count by need a value, and the values of others have no effect.
func (r *Rule) ResetTarget(values []Pair, limits []string) (Target, error) {
	return r.resetTarget(values, limits, false)
}

// ResetTargetAsWritten is [Rule.ResetTarget] with the addresses of [Rule.TargetAsWritten].
func (r *Rule) ResetTargetAsWritten(values []Pair, limits []string) (Target, error) {
	return r.resetTarget(values, limits, true)
}

func (r *Rule) resetTarget(values []Pair, limits []string, asWritten bool) (Target, error) {
	for _, v := range values {
		if v.Name != r.PlanBy && !slices.Contains(r.Compiled.Dimensions, v.Name) {
			return Target{}, r.keyError(values)
		}
	}
	rules, err := r.Compiled.Resets(limits)
	if err != nil {
		return Target{}, err
	}
	if len(limits) == 0 {
		var t Target
		err := r.setTarget(&t, values, asWritten)
		return t, r.hintReset(err, values)
	}
	var t Target
	for _, name := range rules.Dimensions {
		i := slices.IndexFunc(values, func(v Pair) bool { return v.Name == name })
		if i < 0 {
			return Target{}, engine.Input("key",
				"the limits %q need a value for %q", rules.LimitNames(), name)
		}
		value, err := r.Unify(slices.Index(r.Compiled.Dimensions, name), values[i].Value)
		if err != nil && !asWritten {
			return Target{}, err
		}
		t.Key.Append(cmp.Or(value, values[i].Value))
	}
	return t, rules.CheckKey(&t.Key)
}

// hintReset adds the limits that count by fewer values to the error of a reset without names,
// where values are missing.
func (r *Rule) hintReset(err error, values []Pair) error {
	given := func(dimension string) bool {
		return slices.ContainsFunc(values, func(v Pair) bool { return v.Name == dimension })
	}
	wrong, ok := errors.AsType[*weir.InputError](err)
	if !ok || !slices.ContainsFunc(r.Compiled.Dimensions,
		func(d string) bool { return !given(d) }) {
		return err
	}
	hint := misuse.ResetHint(r.Compiled, func(l *engine.Limit) bool {
		return !slices.ContainsFunc(l.By,
			func(d int) bool { return !given(r.Compiled.Dimensions[d]) })
	})
	return engine.Input(wrong.Field, "%s%s", wrong.Problem, hint)
}

// OtherLimits returns the names of the limits that are not among names.
func (r *Rule) OtherLimits(names []string) []string {
	return slices.DeleteFunc(r.Compiled.LimitNames(),
		func(name string) bool { return slices.Contains(names, name) })
}

// ResetRules returns the rules that a reset concerns. Its key has their dimensions.
func (r *Rule) ResetRules(a *Request) *engine.Compiled {
	rules, err := r.Compiled.Resets(a.Limits)
	if err != nil || a.Key.Len() == len(r.Compiled.Dimensions) {
		return r.Compiled
	}
	return rules
}

// CheckNames returns an error unless names, each given once, are those of the dimensions, and
// perhaps that of plan-by.
func (r *Rule) CheckNames(names []string) error {
	values := make([]Pair, 0, len(names))
	plans, expected := 0, len(r.Compiled.Dimensions)
	for _, name := range names {
		values = append(values, Pair{Name: name, Value: "any"}) // only the names count
		if name == r.PlanBy && r.PlanBy != "" && r.planAt < 0 {
			plans = 1
		}
	}
	err := r.keyError(values)
	wrong, isInput := errors.AsType[*weir.InputError](err)
	switch {
	case isInput && r.PlanBy != "" && r.planAt < 0:
		return engine.Input("key",
			"%s, and perhaps %q, which selects a plan", wrong.Problem, r.PlanBy)
	case err == nil && len(names) != expected+plans:
		return engine.Input("key", "a name is given twice in %q", names)
	}
	return err
}

// keyError returns the reason why values do not match the policy's dimensions.
func (r *Rule) keyError(values []Pair) error {
	named := make(map[string]string, len(values))
	for _, v := range values {
		if v.Name != r.PlanBy || r.PlanBy == "" || r.planAt >= 0 {
			named[v.Name] = v.Value
		} else if len(v.Value) > weir.MaxValueBytes {
			return engine.Input("key", "the value of %q is %d bytes long; at most %d are allowed",
				r.PlanBy, len(v.Value), weir.MaxValueBytes)
		}
	}
	_, err := r.Compiled.Key(named)
	return err
}

// Decide makes a call by its Op, and passes it to the Handle:
//
//   - An attempt, a peek, a probe or a record is decided. A shadow allows every attempt, also one that
//     the engine cannot decide: then Outcome.Err has the reason.
//   - A refund takes units back; Granted is their number.
//   - A count (engine.Count) returns the units of a limit in a span as Granted.
//   - A reset (engine.Reset) of a ResetTarget deletes the histories of limits and ends their
//     blocks (R10). A block (engine.Block) of one begins or ends blocks (R20), and Blocked is its
//     time. Outcome.Limits has the names of the limits.
//   - A settlement or an extension settles or extends the reservation of an ID (R19). Reserved is
//     the reservation after it, Granted are the units taken back, or the further ones.
//
// Each is one call of the engine. The error is that of [weir.Limiter.Decide]: a is wrong (R14),
// or the engine cannot decide. Those of reservations wrap weir.ErrExpired or weir.ErrSettled.
func (r *Rule) Decide(ctx context.Context, a *Request) (o Outcome, err error) {
	err = r.decideObserved(ctx, a, &o)
	return o, err
}

// Decide decides the item by itself, as [Rule.Decide] does. It sets the Outcome in its place: the
// copies of a result of 500 bytes take a seventh of the time (BenchmarkDecide).
func (it *Item) Decide(ctx context.Context) {
	it.Outcome = Outcome{}
	it.Err = it.Rule.decideObserved(ctx, &it.Request, &it.Outcome)
}

// decideObserved makes a call and passes it to the Handle. It sets o, the zero Outcome.
func (r *Rule) decideObserved(ctx context.Context, a *Request, o *Outcome) error {
	if r.Handle == nil {
		return r.decide(ctx, a, o)
	}
	began := time.Now()
	err := r.decide(ctx, a, o)
	r.Handle.Observe(Call{Item: Item{r, *a, *o, err}, Began: began, Took: time.Since(began)})
	return err
}

// decide is decideObserved without the Handle.
func (r *Rule) decide(ctx context.Context, a *Request, o *Outcome) (err error) {
	if err = r.checkWait(a); err != nil {
		return err
	}
	switch a.Op {
	case engine.Attempt, engine.Peek, engine.Probe, engine.Record:
		return r.decideAttempt(ctx, a, o)
	case engine.Reset, engine.Block:
		*o, err = r.changeKey(ctx, a)
	case engine.Settle, engine.Extend:
		*o, err = r.settle(ctx, a)
	case engine.Count:
		*o, err = r.count(ctx, a)
	default:
		*o, err = r.refund(ctx, a)
	}
	return err
}

// decideAttempt decides an attempt, a peek, a probe or a record.
func (r *Rule) decideAttempt(ctx context.Context, a *Request, o *Outcome) (err error) {
	if a.Reserve && r.Reported {
		return r.errReported()
	}
	var q weir.Call
	r.begin(o, a, &q)
	err = r.decideLimits(ctx, o, a, &q)
	return r.finish(o, a, &q, err)
}

// Inspect decides a peek, and returns what the store holds for the key, by limit. It is no call that
// the Handle receives. An engine that does not show what it stores is an error.
func (r *Rule) Inspect(ctx context.Context, a *Request) (Outcome, []engine.History, error) {
	var o Outcome
	r.chooseFor(&o, a)
	var histories []engine.History
	calls := []engine.Call{{
		Rules:     o.Limiter.Compiled(),
		Key:       a.Key,
		Op:        engine.Peek,
		N:         a.N,
		States:    a.States,
		Histories: &histories,
	}}
	r.engine.Do(ctx, calls)
	switch c := &calls[0]; {
	case c.Err != nil:
		return o, nil, c.Err
	case histories == nil:
		return o, nil, engine.Input("request", "the engine %T does not show what it stores; "+
			"use weir.Memory, weirdisk or weirredis", r.engine)
	}
	o.Decision = decisionOf(&calls[0])
	o.noteBlock()
	if r.Shadow {
		return o, histories, o.shadow(a, nil)
	}
	return o, histories, nil
}

// errReported rejects a reservation under a policy that counts reported units.
func (r *Rule) errReported() error {
	return engine.Input("request", "policy %q counts reported units, "+
		"so an attempt takes nothing that could be settled; report the units instead", r.Name)
}

// checkWait returns the error of a request that cannot wait (R18), also if its wait has no effect
// because of a shadow or of 0 units.
func (r *Rule) checkWait(a *Request) error {
	switch {
	case a.MaxWait == 0:
		return nil
	case a.Op != engine.Attempt:
		return engine.Input("wait", "MaxWait is for attempts; leave it out of other operations")
	case r.Reported:
		return engine.Input("wait", "policy %q counts reported units, "+
			"so an attempt takes nothing for which it could wait; leave MaxWait out", r.Name)
	}
	c := weir.Call{
		Limiter: r.byPlan[0].Limiter, // plans and overrides change neither the mode nor a kind
		Key:     a.Key,
		Request: weir.Request{N: max(a.N, 1), MaxWait: a.MaxWait},
	}
	return c.Check()
}

// changeKey resets or blocks a key. The key may lack values that overrides are for, and plans
// share the histories, so the policy's own numbers do.
func (r *Rule) changeKey(ctx context.Context, a *Request) (o Outcome, err error) {
	o.variation = r.byPlan[0]
	if a.For < 0 || a.For > weir.MaxWindow {
		return o, engine.Input("span",
			"%v; a block lasts up to %v, and 0 ends it", a.For, weir.MaxWindow)
	}
	rules, err := r.Compiled.Resets(a.Limits)
	if err != nil {
		return o, err
	}
	c := engine.Call{Rules: rules, Op: a.Op, From: a.For.Microseconds()}
	for i, name := range r.ResetRules(a).Dimensions {
		if slices.Contains(rules.Dimensions, name) {
			c.Key.Append(a.Key.Value(i))
		}
	}
	if err := rules.CheckKey(&c.Key); err != nil {
		return o, err
	}
	o.Decision, err = r.call(ctx, a, &c)
	o.noteBlock()
	o.Limits = rules.LimitNames()
	return o, err
}

// call makes a call of the engine at the instant of a request, which a reset does not have.
func (r *Rule) call(ctx context.Context, a *Request, c *engine.Call) (weir.Decision, error) {
	if c.Outage = r.WhenStoreIsDown; !a.At.IsZero() && c.Op != engine.Reset {
		c.At, c.Given = a.At.UnixMicro(), true
	}
	calls := []engine.Call{*c}
	r.engine.Do(ctx, calls)
	*c = calls[0]
	return decisionOf(c), c.Err
}

// decisionOf returns the decision about a call of the engine.
func decisionOf(c *engine.Call) weir.Decision {
	d := weir.Decision(c.Result)
	if !d.Replayed { // such a result has the numbers of the first one
		c.Rules.Explain((*engine.Result)(&d))
	}
	return d
}

// count counts the units of a limit. Plans, overrides and shadows share the histories.
func (r *Rule) count(ctx context.Context, a *Request) (o Outcome, err error) {
	o.variation = r.choose(&a.Key, a.Plan, a.At)
	l := o.Limiter
	if !a.At.IsZero() {
		l = l.At(a.At)
	}
	o.Granted, err = l.Count(ctx, a.Key, a.Limit, a.Last)
	return o, err
}

// refund takes units back. Plans, overrides and shadows share the histories.
func (r *Rule) refund(ctx context.Context, a *Request) (o Outcome, err error) {
	o.variation = r.choose(&a.Key, a.Plan, a.At)
	c := weir.Call{Limiter: o.Limiter, Key: a.Key, Op: a.Op, From: a.From,
		Request: weir.Request{N: a.N, At: a.At, ID: a.ID}}
	if a.N == 0 { // takes nothing back, and the rest must be right all the same
		c.Request.N = 1
		if err = c.Check(); err == nil {
			o.Allowed = true
		}
		return o, err
	}
	o.Decision, err = c.Do(ctx)
	return o, err
}

// begin chooses the numbers for a, and sets q, a zero Call, to the call that the limiter gets. It
// has room for the states that warnings need: the Remaining of a decision is that of several
// limits, or of a block.
func (r *Rule) begin(o *Outcome, a *Request, q *weir.Call) {
	r.chooseFor(o, a)
	q.Limiter = o.Limiter
	q.Key = a.Key
	q.Op = a.Op
	q.Request.N = a.N
	q.Request.At = a.At
	q.Request.States = a.States
	q.Request.ID = a.ID
	switch {
	case a.N == 0:
		q.Op = engine.Peek // 0 units are charged nothing (R4)
	case a.Op == engine.Attempt && r.Reported:
		q.Op = engine.Probe // a denial begins its block (R20)
	case !r.Shadow: // a shadow delays no caller
		q.Request.MaxWait = a.MaxWait
	}
	if q.Op != engine.Peek { // an operator who looks at a key uses no override
		o.noteUse()
	}
	if r.WarnPercents != nil && r.charges(q) && (len(r.Limits) > 1 || r.HasBlocks()) {
		q.Request.States = statesFor(q.Request.States, o.Limiter)
	}
}

// chooseFor chooses the numbers for a.
func (r *Rule) chooseFor(o *Outcome, a *Request) {
	o.variation = r.choose(&a.Key, a.Plan, a.At)
	o.Applied.Plan = o.Plan
	o.Applied.Override, o.Applied.Until = o.Why, o.Until
}

// statesFor returns states, or room for those of the limiter if there is none.
func statesFor(states []weir.LimitState, l *weir.Limiter) []weir.LimitState {
	if states == nil {
		states = make([]weir.LimitState, len(l.Compiled().Limits))
	}
	return states
}

// finish adds the parts of the file to the engine's decision for a, which is that of a limiter's
// call.
func (r *Rule) finish(o *Outcome, a *Request, q *weir.Call, err error) error {
	if err == nil {
		o.noteBlock()
		r.warn(o, q, o.granted)
	}
	if r.Shadow {
		err = o.shadow(a, err)
	}
	return err
}

// noteBlock sets the end of the longest block that runs.
func (o *Outcome) noteBlock() {
	if o.Blocked > 0 {
		o.Applied.Blocked = o.At.Add(o.Blocked)
	}
}

// shadow turns the engine's decision, or its error, into that of a shadow.
func (o *Outcome) shadow(a *Request, err error) error {
	if a.records() {
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
	d := &o.Decision
	d.Allowed, d.Granted = true, a.N
	d.RetryAfter, d.Limit = 0, ""
	d.StartAfter = 0 // a replay of a time without the shadow has one
	d.Blocked = 0    // Applied.Blocked has the end of the block that is not enforced
	d.Cached = false // a cached decision never allows (R8)
	return nil
}

// decideLimits makes the call of the limiter for a, without a shadow. It sets o.Decision.
func (r *Rule) decideLimits(
	ctx context.Context, o *Outcome, a *Request, c *weir.Call,
) (err error) {
	switch {
	case a.Reserve && a.N > 0: // a reservation of 0 units is a peek (R4)
		o.Decision, err = r.reserve(ctx, o, a, c)
	case isPlain(c): // the fast path of a Limiter
		o.Decision, err = c.Limiter.AllowN(ctx, c.Key, c.Request.N)
	default:
		_, err = c.Do(ctx)
		o.Decision = c.Decision
	}
	return err
}

// isPlain reports whether a call is an attempt now without options.
func isPlain(c *weir.Call) bool {
	q := &c.Request
	if q.MaxWait != 0 || q.ID != "" {
		return false
	}
	return c.Op == engine.Attempt && q.At.IsZero() && q.States == nil
}

// crosses reports whether taking units brought the use of a limit from below percent of its
// capacity to that share or above (R5). used is the use afterwards. All numbers are at most
// 2^52, so the products fit.
func crosses(used, units, capacity, percent int64) bool {
	share := capacity * percent
	return (used-units)*100 < share && used*100 >= share
}

// charges reports whether a request can carry a warning: an attempt, or the record of a
// policy that counts reports.
func (r *Rule) charges(q *weir.Call) bool {
	return q.Request.N > 0 && (q.Op == engine.Attempt || q.Op == engine.Record && r.Reported)
}

// warn sets the warnings of a new decision, by the states of the request if it has them.
// units returns the units that a grant took of a limit.
func (r *Rule) warn(o *Outcome, q *weir.Call, units func(l *engine.Limit) int64) {
	d := &o.Decision
	if !r.charges(q) || !d.Allowed || d.Degraded || d.Replayed {
		return
	}
	limits := o.Limiter.Compiled().Limits
	for i, percent := range r.WarnPercents {
		l, used := &limits[i], limits[i].Capacity-d.Remaining
		if q.Request.States != nil {
			if q.Request.States[i].Name == "" { // unknown
				continue
			}
			used = q.Request.States[i].Used
		}
		if percent > 0 && crosses(used, units(l), l.Capacity, int64(percent)) {
			o.Applied.Warnings = append(o.Applied.Warnings, l.Name)
		}
	}
}

// granted returns the units that the decision took of a limit.
func (o *Outcome) granted(l *engine.Limit) int64 { return l.Units(o.Decision.Granted) }
