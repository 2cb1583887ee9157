// Package enforce applies the policies of a file to an engine, with every feature of the
// file: plans, overrides, shadows, blocks, counts of reports and the words for outages. The
// public package enforce and every front of the program decide through it.
//
// A policy, its plans and its overrides share one set of histories, blocks and reservations
// (R12). So a key that changes its plan keeps the units it has used. Each decision is one call of
// the engine.
//
// # Trade-off
//
// Each policy, plan and override is compiled once, and each pair of a plan and an override
// at its first use, which takes a few microseconds. The clock of this process, not that of
// the store, decides whether an override has expired. At an override's last instant,
// processes may differ by the error of their clocks.
package enforce

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy"
)

// ErrNoPolicy reports that the file has no policy of the given name.
var ErrNoPolicy = errors.New("weir: no policy")

// Set applies the policies of one file to an engine. It is safe for concurrent use. A
// reload replaces all policies in one step: a decision uses the old file or the new one.
type Set struct {
	Engine engine.Engine

	reloading sync.Mutex // held while current or overrides change
	overrides *Overrides // of the store; nil = none
	current   atomic.Pointer[Version]
}

// Version is the policies of one reading of the file. It never changes, so a request that
// loads it once sees one version of the file.
type Version struct {
	Generation int64     // 1 for the first version, one more for each reload
	Since      time.Time // in force from then on
	File       *policy.File
	Source     []byte  // the content of the file, if the caller of Reload has set it
	Rules      []*Rule // in the order of the file
	Limits     int     // the limits of all policies together

	byName map[string]*Rule
}

// Reload replaces all policies by those of f. On an error the present ones stay in
// force. Histories stay: units already granted count under the new numbers, unless the kind
// of a limit changes (R12). The policies come into force after accept has returned nil for
// them; it may set the handles of rules. A nil accept accepts all. The error of a policy is
// a *[weir.PolicyError].
func (s *Set) Reload(f *policy.File, accept func(next, now *Version) error) error {
	switch {
	case f == nil:
		return engine.Input("request",
			"the Set got no file; parse one with policy.Parse or policy.Load")
	case isnil.Is(s.Engine):
		return engine.Input("request",
			"the Set has no engine; pass weir.NewMemory() or an opened store")
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	now := s.Version()
	next := &Version{
		Generation: now.Generation + 1,
		Since:      time.Now(),
		File:       f,
		Source:     now.Source,
		byName:     make(map[string]*Rule, len(f.Policies)),
	}
	for _, p := range f.Policies {
		r, err := NewRule(p, s.Engine)
		if err != nil {
			return err
		}
		if next.byName[p.Name] != nil {
			return engine.Input("request",
				"the policy %q is there twice; give each policy a name of its own", p.Name)
		}
		next.byName[p.Name] = r
		next.Rules, next.Limits = append(next.Rules, r), next.Limits+len(p.Limits)
	}
	if accept != nil {
		if err := accept(next, now); err != nil {
			return err
		}
	}
	if s.overrides != nil {
		s.overrides.rebind(next)
	}
	s.current.Store(next)
	return nil
}

// Version returns the policies in force. The zero Set has none.
func (s *Set) Version() *Version {
	if v := s.current.Load(); v != nil {
		return v
	}
	return &Version{}
}

var errZeroSet = errors.New("enforce: the zero Set has no policies; " +
	"make one with enforce.Open or enforce.New")

// Rule returns the policy of that name. The error wraps [ErrNoPolicy] and suggests the
// nearest name.
func (v *Version) Rule(name string) (*Rule, error) {
	if r := v.byName[name]; r != nil {
		return r, nil
	}
	if v.File == nil {
		return nil, errZeroSet
	}
	shown := answer.Quoted(name)
	var names []string
	for _, r := range v.Rules[:min(len(v.Rules), 200)] { // more would cost time
		names = append(names, r.Name)
	}
	if near := nearest.Name(name, names); near != "" {
		return nil, fmt.Errorf("%w %s; did you mean %q?", ErrNoPolicy, shown, near)
	}
	return nil, fmt.Errorf("%w %s", ErrNoPolicy, shown)
}

// Rule is one policy of a file on an engine. It is not changed by reloads, and safe for
// concurrent use.
type Rule struct {
	*policy.Definition
	Compiled *engine.Compiled // with the policy's own numbers
	Handle   Handle           // receives the calls; nil = none. Set it before the first call

	engine    engine.Engine
	planAt    int            // the index of plan-by among the dimensions; -1 if it is none of them
	plans     map[string]int // from the name of a plan to its number, from 1
	addresses []int          // by dimension its bits in Definition.Addresses, or 0; nil without any
	overrides []overrideIndex
	networks  []networkOf // that overrides name
	byRank    []int       // the overrides in their precedence
	stored    storedOverrides

	byPlan     []*variation // 0 = the policy's own numbers
	byOverride []*variation // each with the plan that it names, if any

	mu    sync.Mutex // protects the following
	pairs map[planAndOverride]*variation
}

// variation is a policy with the numbers of a plan and an override.
type variation struct {
	*policy.Definition // with the numbers that apply
	Limiter            *weir.Limiter
	Plan               string    // the name of the plan; "" for the policy's own numbers
	Why                string    // the reason of the override, the first if there are several; "" = none
	Until              time.Time // its end; zero = none
	stored             []*bound  // the overrides of the store, in their precedence
}

// planAndOverride names a plan and an override of the file, by their indexes.
type planAndOverride struct{ plan, override int }

// NewRule compiles a policy for decisions on e. A fallback.Engine takes the mode that the
// policy names for outages. The error is a *weir.PolicyError.
func NewRule(p *policy.Definition, e engine.Engine) (*Rule, error) {
	if p == nil {
		return nil, &weir.PolicyError{Field: "Definition", Problem: "nil; leave it out of the File"}
	}
	r := &Rule{
		Definition: p,
		engine:     e,
		plans:      make(map[string]int, len(p.Plans)),
		pairs:      map[planAndOverride]*variation{},
	}
	base, err := r.compile(0, nil)
	if err != nil {
		return nil, err
	}
	r.Compiled = base.Limiter.Compiled()
	if err := checkParts(p, r.Compiled.Dimensions); err != nil {
		return nil, err
	}
	if err := r.setAddresses(); err != nil {
		return nil, err
	}
	r.planAt = slices.Index(r.Compiled.Dimensions, p.PlanBy)
	r.byPlan = append(r.byPlan, base)
	for i := range p.Plans {
		v, err := r.compile(i+1, nil)
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", p.Plans[i].Name, err)
		}
		r.byPlan, r.plans[v.Plan] = append(r.byPlan, v), i+1
	}
	for i := range p.Overrides {
		o := &p.Overrides[i]
		v, err := r.compile(r.plans[o.Plan], o)
		if err != nil {
			return nil, fmt.Errorf("override %d: %w", i+1, err)
		}
		r.byOverride = append(r.byOverride, v)
	}
	if err = r.indexOverrides(); err != nil {
		return nil, err
	}
	return r, nil
}

// HasBlocks reports whether a denial by a limit of the policy begins a block.
func (r *Rule) HasBlocks() bool {
	return slices.ContainsFunc(r.Limits, func(l weir.Limit) bool { return l.Block > 0 })
}

// checkParts returns the error of parts that only a program can make, and policy.Parse never does.
func checkParts(p *policy.Definition, dimensions []string) error {
	var err error
	fail := func(field, format string, args ...any) {
		err = cmp.Or[error](err,
			&weir.PolicyError{Policy: p.Name, Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	changes := func(field string, name any, all []policy.Change) {
		for _, c := range all {
			if c.Limit < 0 || c.Limit >= len(p.Limits) {
				fail(field, "%#v changes limit %d; the policy has %d, and the first is 0",
					name, c.Limit, len(p.Limits))
			}
		}
	}
	for _, plan := range p.Plans {
		changes("Plans", plan.Name, plan.Changes)
	}
	for i, o := range p.Overrides {
		changes("Overrides", i, o.Changes)
		if o.Plan != "" && !slices.ContainsFunc(p.Plans,
			func(plan policy.Plan) bool { return plan.Name == o.Plan }) {
			fail("Overrides", "%d names the plan %q, "+
				"which is not there; leave it out, or add it to Plans", i, o.Plan)
		}
		for _, d := range o.For {
			if !slices.Contains(dimensions, d.Name) {
				fail("Overrides", "%d is for %q; the policy counts by %q", i, d.Name, dimensions)
			}
			if d.Value == "" {
				fail("Overrides",
					"%d is for an empty %q, which no key has; name a value", i, d.Name)
			}
		}
	}
	return err
}

// Dimensions returns the names of the values of a key, in order.
func (r *Rule) Dimensions() []string { return r.Compiled.Dimensions }

// PlanOf returns the number of the plan that a value of plan-by selects, counted from 1; 0 if it
// selects none.
func (r *Rule) PlanOf(value string) int { return r.plans[value] }

// compile returns the variation of the plan of a number, 0 for none, and of an override, nil for
// none.
func (r *Rule) compile(number int, override *policy.Override) (*variation, error) {
	v := r.numbersOf(number, override)
	return v, r.setLimiter(v)
}

// numbersOf returns such a variation without its limiter.
func (r *Rule) numbersOf(number int, override *policy.Override) *variation {
	v := new(variation)
	var changes [][]policy.Change
	if number > 0 {
		plan := &r.Definition.Plans[number-1]
		v.Plan = plan.Name
		changes = append(changes, plan.Changes)
	}
	if override != nil {
		v.Why, v.Until = override.Why, override.Until
		changes = append(changes, override.Changes)
	}
	v.Definition = r.With(changes...)
	return v
}

// setLimiter sets the limiter of a variation.
func (r *Rule) setLimiter(v *variation) (err error) {
	limits := weir.Policy{
		Name:       v.Name,
		Mode:       v.Mode,
		Limits:     v.Limits,
		Dimensions: v.Definition.Dimensions(),
	}
	v.Limiter, err = weir.New(limits, weir.WithEngine(r.engine), weir.WithOutage(r.WhenStoreIsDown))
	return err
}

// choose returns the variation of a key at an instant; the zero time is now. plan is a result
// of PlanOf.
func (r *Rule) choose(key *weir.Key, plan int, at time.Time) *variation {
	override := -1
	if len(r.overrides) > 0 {
		override = r.overrideOf(key, at)
	}
	of := planAndOverride{plan, override}
	if found, others := r.stored.find(key); found != nil {
		if v := r.chooseStored(key, of, at, found, others); v != nil {
			return v
		}
	}
	return r.chooseOfFile(of)
}

// HasOverride reports whether an override of the file or of the store applies to a key now.
func (r *Rule) HasOverride(key weir.Key) bool {
	return r.choose(&key, 0, time.Time{}).Why != ""
}

// chooseOfFile returns the variation of a plan and an override of the file, -1 for none.
func (r *Rule) chooseOfFile(of planAndOverride) *variation {
	switch {
	case of.override < 0:
		return r.byPlan[of.plan]
	case of.plan == 0 || r.Definition.Overrides[of.override].Plan != "":
		return r.byOverride[of.override]
	}
	return r.pair(of)
}

// pair returns the variation of the plan of a request and an override that names none. It is
// compiled at its first use.
func (r *Rule) pair(of planAndOverride) *variation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.pairs[of]; v != nil {
		return v
	}
	v, err := r.compile(of.plan, &r.Definition.Overrides[of.override])
	if err != nil {
		panic(err) // NewRule has compiled every number; this pair only combines them
	}
	r.pairs[of] = v
	return v
}

// Limiter returns the limiter with the numbers of a target at an instant, for refunds and
// counts. The zero time is now.
func (r *Rule) Limiter(t *Target, at time.Time) *weir.Limiter {
	return r.choose(&t.Key, t.Plan, at).Limiter
}

// instant returns the instant of a request, in whole microseconds (R1). Without one it reads
// this process's clock.
func instant(at time.Time) time.Time {
	if at.IsZero() {
		at = time.Now()
	}
	return time.UnixMicro(at.UnixMicro())
}
