package weir

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/internal/window"
)

// Plan is a policy that has been checked and compiled for engines: every number
// is whole microseconds or units, every dimension an index into the key. A Plan
// never changes.
type Plan struct {
	policy     Policy
	dimensions []string
	limits     []PlanLimit

	rates, holds *Plan // the parts of a plan with limits of kind Concurrency; otherwise p and nil
	whole        *Plan // the plan that this one is a part of, otherwise nil

	parts []planPart // of calls decided together; otherwise nil

	memory atomic.Pointer[memoryPlan] // the plan as compiled by the last memory engine that used it
}

// PlanLimit is one limit of a Plan. Times are microseconds.
type PlanLimit struct {
	Policy      string // name of the policy; histories belong to it, the limit's name and the values of By
	Name        string
	Max         int64 // units, 0 … MaxUnits
	Window      int64 // 1,000 … 400 days; of a Period the longest it usually lasts; of Concurrency its MaxHold
	MinInterval int64 // 0 … Window
	Cell        int64 // width of a cell, ceil(Window / Cells); 0 = exact (R9)
	Cost        int64 // units an attempt takes: 0 = its own number, k = always k
	Kind        Kind  // where windows begin (R3)
	By          []int // indices into the key's values, in the order of Limit.By; none = shared by all

	Capacity int64  // most units of one attempt, and of the room: Burst of a Bucket, otherwise Max
	Refill   Refill // of a Bucket: the time in which one unit flows in (R16)
	Period   *Zoned // of a Fixed limit with a Period: its windows (R3); otherwise nil

	// Shared are the dimensions that all limits of the policy count by, as indices into the
	// key's values, in the order of their names. Engines that place the histories of a policy
	// together do so by these values.
	Shared []int

	Call int // of calls decided together: the index of the first one that the limit is of; otherwise 0
}

// Plan checks every field of the policy and compiles it. The error is a
// *PolicyError that names the limit and the field.
func (p Policy) Plan() (*Plan, error) {
	p = p.named()
	if err := p.check(); err != nil {
		return nil, err
	}
	plan := &Plan{policy: p}
	plan.policy.Limits = nil
	for _, l := range p.Limits {
		plan.add(l)
	}
	if n := len(plan.dimensions); n > MaxDimensions {
		return nil, &PolicyError{Policy: p.Name, Field: "Limits",
			Problem: fmt.Sprintf("the limits count by %d dimensions; %d are allowed", n, MaxDimensions)}
	}
	shared := plan.shared()
	for i := range plan.limits {
		plan.limits[i].Shared = shared
	}
	plan.split()
	return plan, nil
}

// WithLimits returns the plan with other numbers in its limits, which keep their order and
// their histories. It serves engines that decide by other numbers, such as a share of each
// Max. The error is a *PolicyError.
func (p *Plan) WithLimits(limits []Limit) (*Plan, error) {
	c := &Plan{policy: p.policy, dimensions: p.dimensions, parts: p.parts}
	c.policy.Limits = nil
	for i, l := range limits {
		if field, problem := l.problem(); problem != "" {
			return nil, &PolicyError{Policy: p.Name(), Limit: l.Name, Field: field, Problem: problem}
		}
		c.add(l)
		to, from := &c.limits[i], &p.limits[i]
		to.Policy, to.Name, to.By, to.Shared, to.Call = from.Policy, from.Name, from.By, from.Shared, from.Call
	}
	c.split()
	return c, nil
}

// add compiles a checked limit and appends it.
func (p *Plan) add(l Limit) {
	l.By = slices.Clone(l.By)
	if l.Period != NoPeriod {
		l.Window = l.window()
	}
	if l.Kind == Bucket {
		l.Burst = l.Capacity()
	}
	p.policy.Limits = append(p.policy.Limits, l)
	p.limits = append(p.limits, p.compile(l))
}

// shared returns the dimensions that all limits count by, in the order of their names, so
// that the order of limits does not matter.
func (p *Plan) shared() []int {
	shared := slices.Clone(p.limits[0].By)
	for i := range p.limits {
		shared = slices.DeleteFunc(shared, func(dim int) bool { return !slices.Contains(p.limits[i].By, dim) })
	}
	slices.SortFunc(shared, func(i, j int) int { return strings.Compare(p.dimensions[i], p.dimensions[j]) })
	return shared
}

// split makes the parts of a plan with limits of kind Concurrency.
func (p *Plan) split() {
	p.rates = p
	if slices.ContainsFunc(p.limits, func(l PlanLimit) bool { return l.Kind == Concurrency }) {
		p.rates, p.holds = p.part(false), p.part(true)
	}
}

// part returns a plan with the limits that are, or are not, of kind Concurrency, on the same
// histories and for the same keys. It is nil if there are none.
func (p *Plan) part(inFlight bool) *Plan {
	c := &Plan{policy: p.policy, dimensions: p.dimensions, whole: p}
	c.policy.Limits = nil
	for i, l := range p.limits {
		if (l.Kind == Concurrency) == inFlight {
			c.limits = append(c.limits, l)
			c.policy.Limits = append(c.policy.Limits, p.policy.Limits[i])
		}
	}
	switch {
	case c.limits == nil:
		return nil
	case inFlight:
		c.holds = c
	default:
		c.rates = c
	}
	return c
}

// Holds returns the plan of the limits of kind Concurrency, on the same histories and for the
// same keys, or nil if there are none. Reservations end and extend their holds by it (R17).
func (p *Plan) Holds() *Plan { return p.holds }

// Rates returns the plan of all limits except those of kind Concurrency, as Holds does. It is
// p itself without such limits, and nil if there are no others.
func (p *Plan) Rates() *Plan { return p.rates }

// HoldTime returns the time for which a granted unit is held in every limit of kind
// Concurrency: the shortest MaxHold of them, or 0 if there are none (R17).
func (p *Plan) HoldTime() time.Duration {
	if p.holds == nil {
		return 0
	}
	shortest := p.holds.limits[0].Window
	for i := range p.holds.limits {
		shortest = min(shortest, p.holds.limits[i].Window)
	}
	return time.Duration(shortest) * time.Microsecond
}

// HeldUnits returns the units that the end of a hold of n takes back, as Refund returns
// them: n, or less if every limit of kind Concurrency has a lower Cost. Without such limits it
// is 0.
func (p *Plan) HeldUnits(n int64) (units int64) {
	if p.holds == nil {
		return 0
	}
	for i := range p.holds.limits {
		units = max(units, min(n, p.holds.limits[i].Units(n)))
	}
	return units
}

// compile turns one checked limit into numbers, adding dimensions the plan has
// not seen to p.dimensions in order of first appearance.
func (p *Plan) compile(l Limit) PlanLimit {
	c := PlanLimit{
		Policy:      p.policy.Name,
		Name:        l.Name,
		Max:         l.Max,
		Window:      l.window().Microseconds(),
		MinInterval: l.MinInterval.Microseconds(),
		Cost:        l.Cost,
		Kind:        l.Kind,
		Capacity:    l.Capacity(),
	}
	switch {
	case l.Kind == Bucket:
		c.Refill = window.NewRefill(l.Max, c.Window)
	case l.Period != NoPeriod:
		c.Period = l.zoned()
	}
	if l.Cells > 0 {
		c.Cell = (c.Window-1)/int64(l.Cells) + 1 // rounded up
	}
	for _, dim := range l.By {
		i := slices.Index(p.dimensions, dim)
		if i < 0 {
			i = len(p.dimensions)
			p.dimensions = append(p.dimensions, dim)
		}
		c.By = append(c.By, i)
	}
	return c
}

// Units returns the units that an attempt, a peek or a record of n takes of the limit.
// An attempt of 0 takes none, because it is a peek (R4).
func (l *PlanLimit) Units(n int64) int64 {
	if l.Cost > 0 && n > 0 {
		return l.Cost
	}
	return n
}

// Span returns the span, in microseconds, that a Count of the last microseconds covers.
// For fixed windows it is the whole open window, because only its beginning is stored
// (R11).
func (l *PlanLimit) Span(last int64) int64 {
	if l.Kind == Fixed || l.Kind == FixedFromFirst {
		return l.Window
	}
	return last
}

// Name returns the policy's name.
func (p *Plan) Name() string { return p.policy.Name }

// Mode returns the policy's mode.
func (p *Plan) Mode() Mode { return p.policy.Mode }

// Policy returns a copy of the policy the plan was made from.
func (p *Plan) Policy() Policy {
	c := p.policy
	c.Limits = slices.Clone(c.Limits)
	for i := range c.Limits {
		c.Limits[i].By = slices.Clone(c.Limits[i].By)
	}
	return c
}

// Limits returns the compiled limits in the order of the policy. The caller must not
// change them.
func (p *Plan) Limits() []PlanLimit { return p.limits }

// LimitNamed returns the index of the limit of that name, or -1.
func (p *Plan) LimitNamed(name string) int {
	for i := range p.limits {
		if p.limits[i].Name == name {
			return i
		}
	}
	return -1
}

// Keep returns the most microseconds for which a granted unit can count: the window with a
// cell, the longest a period can last, or the time in which an empty bucket fills.
func (l *PlanLimit) Keep() int64 {
	switch {
	case l.Kind == Bucket:
		full, _ := l.Refill.Time(l.Capacity)
		return full + 1
	case l.Period != nil:
		return l.Window + longestShift
	}
	return l.Window + l.Cell
}

// LongestWindow returns the longest window of the plan's limits. Of a bucket it is the time
// in which it fills, if that is longer.
func (p *Plan) LongestWindow() time.Duration {
	w := int64(0)
	for i := range p.limits {
		l := &p.limits[i]
		w = max(w, l.Window)
		if l.Kind == Bucket {
			w = max(w, l.Keep())
		}
	}
	return time.Duration(w) * time.Microsecond
}

// minIdempotencyTTL is the least time for which an operation is remembered. With a window
// of a second, a retry may come after the first call has stopped to count; it must not be
// charged again.
const minIdempotencyTTL = time.Minute

// IdempotencyTTL returns the time for which an operation with an id is remembered, from
// the instant of its decision: as long as it can count in some limit, and at least a
// minute. The policy at that instant determines it; later changes do not. Parts of a plan
// (Holds, Rates) remember operations as long as the whole plan does.
func (p *Plan) IdempotencyTTL() time.Duration {
	if p.whole != nil {
		return p.whole.IdempotencyTTL()
	}
	longest := minIdempotencyTTL.Microseconds()
	for i := range p.limits {
		longest = max(longest, p.limits[i].Keep())
	}
	return time.Duration(longest) * time.Microsecond
}

// Dimensions returns the names of the values of a Key, in the order in which they first
// appear in Limits[].By. The caller must not change them.
func (p *Plan) Dimensions() []string { return p.dimensions }

// Key builds the plan's key from named values. Every dimension needs a value, and no
// other names are allowed. The error wraps ErrKey and lists the names that are missing or
// unknown.
func (p *Plan) Key(values map[string]string) (Key, error) {
	if name, found := p.unknownDimension(values); found {
		return Key{}, fmt.Errorf("%w: policy %q has no dimension %q; it counts by %s",
			ErrKey, p.Name(), shorten.Text(name), p.describeDimensions())
	}
	var k Key
	for _, name := range p.dimensions {
		v, ok := values[name]
		if !ok {
			return Key{}, fmt.Errorf("%w: policy %q needs a value for %q; it counts by %s",
				ErrKey, p.Name(), name, p.describeDimensions())
		}
		k.push(v)
	}
	return k, p.checkKey(&k)
}

// unknownDimension returns the first name in alphabetical order that is no dimension.
// The order makes the error for an input always the same.
func (p *Plan) unknownDimension(values map[string]string) (first string, found bool) {
	for name := range values {
		if !slices.Contains(p.dimensions, name) && (!found || name < first) {
			first, found = name, true
		}
	}
	return first, found
}

// checkKey returns ErrKey unless k has a value for each dimension, within its size (R14).
func (p *Plan) checkKey(k *Key) error {
	if k.Len() != len(p.dimensions) {
		return fmt.Errorf("%w: policy %q counts by %s, so its keys have %d values; this one has %d",
			ErrKey, p.Name(), p.describeDimensions(), len(p.dimensions), k.Len())
	}
	for i := range k.Len() {
		if n := len(k.value(i)); n > MaxValueBytes {
			return fmt.Errorf("%w: the value of %q is %d bytes long; at most %d are allowed",
				ErrKey, p.dimensions[i], n, MaxValueBytes)
		}
	}
	return nil
}

func (p *Plan) describeDimensions() string {
	if len(p.dimensions) == 0 {
		return "nothing (one history for all callers)"
	}
	return fmt.Sprintf("%q", p.dimensions)
}

// allOrNothing returns the plan in that mode, on the same histories.
func (p *Plan) allOrNothing() *Plan {
	if p.policy.Mode == AllOrNothing {
		return p
	}
	c := &Plan{policy: p.policy, dimensions: p.dimensions, limits: p.limits}
	c.policy.Mode = AllOrNothing
	return c
}

// micros converts a duration to microseconds, rounded up, so that waits are not too short.
func micros(d time.Duration) int64 {
	us := d / time.Microsecond
	if d%time.Microsecond > 0 {
		us++
	}
	return int64(us)
}
