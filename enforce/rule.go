package enforce

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/policy"
)

// Rule is one policy of a file on an engine. It is not changed by reloads, and safe for
// concurrent use.
type Rule struct {
	*policy.Definition
	Compiled *engine.Compiled // of the policy's own numbers
	Handle   Handle           // receives the calls; nil = none. Set it before the first call

	engine     engine.Engine
	dimensions []string
	planAt     int            // the index of plan-by among the dimensions; -1 if it is none of them
	plans      map[string]int // from the name of a plan to its number, from 1
	overrides  []overrideIndex
	blocks     *blocks // nil if no limit blocks

	base       *variation
	variations []planVariations // by override, 0 for none
}

// variation is a policy with the numbers of a plan and an override.
type variation struct {
	*policy.Definition // with the numbers that apply
	Limiter            *weir.Limiter
	Plan               string           // the name of the plan; "" for the policy's own numbers
	Override           *policy.Override // nil if none applies

	replay *weir.Limiter // from newReplay, of a policy with blocks
}

// planVariations are the variations of one override, by plan, 0 for none. Each is nil until its
// first use.
type planVariations struct {
	atomic.Pointer[[]atomic.Pointer[variation]]
}

// NewRule compiles a policy for decisions on e. A fallback.Engine takes the mode that the
// policy names for outages. The error is a *weir.PolicyError.
func NewRule(p *policy.Definition, e engine.Engine) (*Rule, error) {
	r := &Rule{Definition: p, engine: e, plans: make(map[string]int, len(p.Plans))}
	r.variations = make([]planVariations, len(p.Overrides)+1)
	var err error
	if r.base, err = r.compile(0, 0); err != nil {
		return nil, err
	}
	r.Compiled = r.base.Limiter.Compiled()
	r.dimensions = r.Compiled.Dimensions
	r.planAt = slices.Index(r.dimensions, p.PlanBy)
	for i, plan := range p.Plans {
		r.plans[plan.Name] = i + 1
		if _, err := r.compile(i+1, 0); err != nil {
			return nil, fmt.Errorf("plan %s: %w", plan.Name, err)
		}
	}
	for i := range p.Overrides {
		if _, err := r.compile(0, i+1); err != nil {
			return nil, fmt.Errorf("override %d: %w", i+1, err)
		}
	}
	r.overrides = indexOverrides(p.Overrides, r.dimensions)
	r.blocks, err = newBlocks(p, r.Compiled, e)
	return r, err
}

// Dimensions returns the names of the values of a key, in order.
func (r *Rule) Dimensions() []string { return r.dimensions }

// compile returns the variation of a plan and an override, both counted from 1; 0 is none.
func (r *Rule) compile(plan, override int) (*variation, error) {
	v := &variation{}
	var changes [][]policy.Change
	if plan != 0 {
		v.Plan = r.Definition.Plans[plan-1].Name
		changes = append(changes, r.Definition.Plans[plan-1].Changes)
	}
	if override != 0 {
		v.Override = &r.Definition.Overrides[override-1]
		changes = append(changes, v.Override.Changes)
	}
	v.Definition = r.With(changes...)
	var err error
	if v.Limiter, err = weir.New(weir.Policy{Name: v.Name, Mode: v.Mode, Limits: v.Limits}, weir.WithEngine(r.engine), weir.WithOutage(r.WhenStoreIsDown)); err == nil && r.Blocks != nil {
		v.replay, err = newReplay(v.Definition, r.engine)
	}
	return v, err
}

// variationOf returns the variation of a plan and an override, compiled at its first use.
func (r *Rule) variationOf(plan, override int) *variation {
	at := r.variations[override].slot(plan, len(r.Definition.Plans))
	if v := at.Load(); v != nil {
		return v
	}
	v, err := r.compile(plan, override)
	if err != nil {
		panic(err) // NewRule has compiled every number; this pair only combines them
	}
	if at.CompareAndSwap(nil, v) {
		return v
	}
	return at.Load()
}

// slot returns the place of a plan's variation among those of n plans.
func (b *planVariations) slot(plan, n int) *atomic.Pointer[variation] {
	all := b.Load()
	if all == nil {
		fresh := make([]atomic.Pointer[variation], n+1)
		if all = &fresh; !b.CompareAndSwap(nil, all) {
			all = b.Load()
		}
	}
	return &(*all)[plan]
}

// PlanOf returns the number of the plan that a value of plan-by selects, counted from 1; 0 if it
// selects none.
func (r *Rule) PlanOf(value string) int { return r.plans[value] }

// instant returns the instant of a request, in whole microseconds (R1). Without one it reads
// this process's clock.
func instant(at time.Time) time.Time {
	if at.IsZero() {
		at = time.Now()
	}
	return time.UnixMicro(at.UnixMicro())
}
