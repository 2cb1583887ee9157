package weir

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Plan is a policy that has been checked and compiled for engines: every number
// is whole microseconds or units, every dimension an index into the key. A Plan
// never changes.
type Plan struct {
	policy     Policy
	dimensions []string
	limits     []PlanLimit

	memory atomic.Pointer[memoryPlan] // the plan as compiled by the last memory engine that used it
}

// PlanLimit is one limit of a Plan. Times are microseconds.
type PlanLimit struct {
	Name        string
	Max         int64 // units, 0 … MaxUnits
	Window      int64 // 1,000 … 400 days
	MinInterval int64 // 0 … Window
	Cell        int64 // width of a cell, ceil(Window / Cells); 0 = exact (R9)
	Cost        int64 // units an attempt takes: 0 = its own number, k = always k
	Kind        Kind  // where windows begin (R3)
	By          []int // indices into the key's values, in the order of Limit.By; none = shared by all
}

// Plan checks every field of the policy and compiles it. The error is a
// *PolicyError that names the limit and the field.
func (p Policy) Plan() (*Plan, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	plan := &Plan{policy: p}
	plan.policy.Limits = make([]Limit, len(p.Limits))
	for i, l := range p.Limits {
		l.By = slices.Clone(l.By)
		plan.policy.Limits[i] = l
		plan.limits = append(plan.limits, plan.compile(l))
	}
	if n := len(plan.dimensions); n > MaxDimensions {
		return nil, &PolicyError{Policy: p.Name, Field: "Limits",
			Problem: fmt.Sprintf("the limits count by %d dimensions; %d are allowed", n, MaxDimensions)}
	}
	return plan, nil
}

// compile turns one checked limit into numbers, adding dimensions the plan has
// not seen to p.dimensions in order of first appearance.
func (p *Plan) compile(l Limit) PlanLimit {
	c := PlanLimit{
		Name:        l.Name,
		Max:         l.Max,
		Window:      l.Window.Microseconds(),
		MinInterval: l.MinInterval.Microseconds(),
		Cost:        l.Cost,
		Kind:        l.Kind,
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
	if l.Kind != Rolling {
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

// LongestWindow returns the longest window of the plan's limits.
func (p *Plan) LongestWindow() time.Duration {
	w := int64(0)
	for i := range p.limits {
		w = max(w, p.limits[i].Window)
	}
	return time.Duration(w) * time.Microsecond
}

// CheckTTL returns ErrTTL unless a reservation of the policy may last for ttl.
func (p *Plan) CheckTTL(ttl time.Duration) error {
	if most := p.LongestWindow(); ttl <= 0 || ttl > most {
		return fmt.Errorf("%w: %v; with policy %q a reservation lasts more than 0 and at most %v, its longest window",
			ErrTTL, ttl, p.Name(), most)
	}
	return nil
}

// minIdempotencyTTL is the least time for which an operation is remembered. With a window
// of a second, a retry may come after the first call has stopped to count; it must not be
// charged again.
const minIdempotencyTTL = time.Minute

// IdempotencyTTL returns the time for which an operation with an id is remembered, from
// the instant of its decision: as long as it can count in some limit, and at least a
// minute. The policy at that instant determines it; later changes do not.
func (p *Plan) IdempotencyTTL() time.Duration {
	longest := minIdempotencyTTL.Microseconds()
	for i := range p.limits {
		longest = max(longest, p.limits[i].Window+p.limits[i].Cell)
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
			ErrKey, p.Name(), clip(name), p.describeDimensions())
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

// whole returns the plan with mode AllOrNothing, on the same histories.
func (p *Plan) whole() *Plan {
	if p.policy.Mode == AllOrNothing {
		return p
	}
	c := &Plan{policy: p.policy, dimensions: p.dimensions, limits: p.limits}
	c.policy.Mode = AllOrNothing
	return c
}

// clip shortens a value of the caller for an error text.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// micros converts a duration to microseconds, rounded up, so that waits are not too short.
func micros(d time.Duration) int64 {
	us := d / time.Microsecond
	if d%time.Microsecond > 0 {
		us++
	}
	return int64(us)
}
