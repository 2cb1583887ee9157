// Package enforce puts the policies of a file to work on an engine, alike for every
// front end: which plan and which override a key has at an instant, what an
// attempt asks where only reports are charged, and what becomes of a decision that
// is not to be enforced.
//
// A policy, its plans and its overrides are one set of histories with other
// numbers (R12), so a key that changes its plan takes along what it has used.
//
// A limit that blocks has a second history for its blocks, under a name of their
// own (blocks). It costs an attempt one look more at the engine, and the refusal that
// begins a block one attempt more.
//
// The bargain: a policy is compiled once, and each pair of a plan and an override
// when it is first met, so the first decision of a pair takes a few microseconds
// longer. Whether an override has expired is asked of the clock of this process,
// not of the store's: at its last instant processes may differ by what their
// clocks differ.
package enforce

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/policy"
)

// Rule is one policy of a file on an engine. It is safe for concurrent use.
type Rule struct {
	*policy.Policy
	engine     weir.Engine
	dimensions []string
	planAt     int // the index of PlanBy among the dimensions, -1 if it is none of them
	plans      map[string]int
	overrides  []overrideIndex
	blocks     *blocks // nil if no limit blocks

	base       *Variation
	variations []byPlan // by override + 1
}

// Variation is a policy with the numbers of a plan and an override.
type Variation struct {
	*policy.Policy // what weir decides by, and the units
	Limiter        *weir.Limiter
	Tier           string           // its name, "" for the policy's own numbers
	Override       *policy.Override // nil if none applies
}

// byPlan are the variations of one override, by plan + 1. All of it is nil until met.
type byPlan struct {
	atomic.Pointer[[]atomic.Pointer[Variation]]
}

// None stands for no plan, and for no override.
const None = -1

// NewRule compiles a policy for decisions on e. A [fallback.Engine] takes the mode that
// the policy names for outages. The error is a *weir.PolicyError.
func NewRule(p *policy.Policy, e weir.Engine) (*Rule, error) {
	if f, ok := e.(*fallback.Engine); ok {
		e = f.WithMode(p.WhenStoreIsDown)
	}
	r := &Rule{Policy: p, engine: e, plans: make(map[string]int, len(p.Tiers))}
	r.variations = make([]byPlan, len(p.Overrides)+1)
	var err error
	if r.base, err = r.compile(None, None); err != nil {
		return nil, err
	}
	r.dimensions = r.base.Limiter.Plan().Dimensions()
	r.planAt = slices.Index(r.dimensions, p.TierBy)
	for i, plan := range p.Tiers {
		r.plans[plan.Name] = i
		if _, err := r.compile(i, None); err != nil {
			return nil, fmt.Errorf("plan %s: %w", plan.Name, err)
		}
	}
	for i := range p.Overrides {
		if _, err := r.compile(None, i); err != nil {
			return nil, fmt.Errorf("override %d: %w", i+1, err)
		}
	}
	r.overrides = indexed(p.Overrides, r.dimensions)
	r.blocks, err = newBlocks(p, r.base.Limiter.Plan(), e)
	return r, err
}

// Base is the policy with its own numbers.
func (r *Rule) Base() *Variation { return r.base }

// Dimensions are the names of the values of a key, in order.
func (r *Rule) Dimensions() []string { return r.dimensions }

// compile makes the limiter of a plan and an override, each of which may be None.
func (r *Rule) compile(plan, override int) (*Variation, error) {
	v := &Variation{}
	var changes [][]policy.Change
	if override != None {
		v.Override = &r.Policy.Overrides[override]
		changes = append(changes, v.Override.Changes)
	}
	if plan != None {
		v.Tier = r.Policy.Tiers[plan].Name
		changes = slices.Insert(changes, 0, r.Policy.Tiers[plan].Changes)
	}
	v.Policy = r.With(changes...)
	limits := v.Policy.Policy
	limits.Unsupported = "" // this package applies those parts
	var err error
	v.Limiter, err = weir.New(limits, weir.WithEngine(r.engine))
	return v, err
}

// Choose returns what applies to a key at an instant in microseconds since 1970, or
// weir.Now. plan is what PlanOf returned for it.
func (r *Rule) Choose(key *weir.Key, plan int, at int64) *Variation {
	override := None
	if len(r.overrides) > 0 {
		if override = r.overrideOf(key, at); override != None && r.Policy.Overrides[override].Tier != "" {
			plan = r.plans[r.Policy.Overrides[override].Tier]
		}
	}
	return r.variation(plan, override)
}

// variation compiles what nobody has met yet.
func (r *Rule) variation(plan, override int) *Variation {
	if plan == None && override == None {
		return r.base
	}
	at := r.variations[override+1].slot(plan, len(r.Policy.Tiers))
	if v := at.Load(); v != nil {
		return v
	}
	v, err := r.compile(plan, override)
	if err != nil {
		panic(err) // New has tried every number: a plan and an override only choose among them
	}
	if at.CompareAndSwap(nil, v) {
		return v
	}
	return at.Load()
}

// slot is where the variation of a plan goes, of so many plans.
func (b *byPlan) slot(plan, plans int) *atomic.Pointer[Variation] {
	all := b.Load()
	if all == nil {
		fresh := make([]atomic.Pointer[Variation], plans+1)
		if all = &fresh; !b.CompareAndSwap(nil, all) {
			all = b.Load()
		}
	}
	return &(*all)[plan+1]
}

// PlanOf returns the plan that a value of PlanBy names, or None.
func (r *Rule) TierOf(value string) int {
	if i, ok := r.plans[value]; ok {
		return i
	}
	return None
}

// instant is at as a time.Time.
func instant(at int64) time.Time {
	if at == weir.Now {
		return time.Now()
	}
	return time.UnixMicro(at)
}
