package envoy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
)

// domains are the domains in force, by name. The map never changes.
type domains map[string]*domain

// domain has the rules of a configured domain, or a policy. Either rules or policy is
// nil.
type domain struct {
	name      string
	histories string            // the policy name under which engines store its histories
	rules     *envoyconf.Domain // nil for a policy
	limits    []*limit          // the limits of rules, by Rule.Index
	policy    *enforce.Rule     // in a mode without partial grants; nil for rules
	shown     []*shownLimit     // one for each limit of the policy

	overridden *Hits // the hits of all overrides; nil for a policy

	mu        sync.Mutex        // protects overrides
	overrides map[string]*limit // by their numbers and keys
}

// compile returns the domains of a configuration and of policies.
func (s *Service) compile(config *envoyconf.Config, policies []*enforce.Rule, before domains) (domains, error) {
	next := domains{}
	if config != nil {
		all := config.Rules()
		for _, rules := range config.Domains {
			d, err := s.compileDomain(rules, before[rules.Name], all)
			if err != nil {
				return nil, fmt.Errorf("envoy: domain %q: %w", rules.Name, err)
			}
			next[d.name] = d
		}
	}
	for _, p := range policies {
		if err := next.addPolicy(p, s.options.Engine); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// compileDomain compiles the rules of a domain. A rule that was in force before keeps
// its counts. all is the number of rules of all domains.
func (s *Service) compileDomain(rules *envoyconf.Domain, before *domain, all int) (*domain, error) {
	d := &domain{name: rules.Name, histories: rules.Policy, rules: rules, overridden: new(Hits)}
	known := map[string]*limit{}
	if before != nil && before.rules != nil { // and not a policy of that name
		d.overridden = before.overridden
		for _, l := range before.limits {
			known[ruleID(l.rule)] = l
		}
	}
	for _, r := range rules.Rules {
		l, err := s.newLimit(d, r, "")
		if err != nil {
			return nil, err
		}
		l.names = namesOf(r)
		if old := known[ruleID(r)]; old != nil {
			l.tally = old.tally
			if slices.Equal(l.names, old.names) {
				l.top = old.top
			}
		}
		if l.top == nil && s.options.Top != nil {
			l.top = s.options.Top(all)
		}
		d.limits = append(d.limits, l)
	}
	return d, nil
}

// ruleID identifies a rule by its place. Paths alone are ambiguous: keys may hold dots.
func ruleID(r *envoyconf.Rule) string { return strings.Join(r.Keys, "\x00") + "\x00" + r.Path }

// addPolicy adds a policy as a domain of its name: requests name it, and the entries of a
// descriptor name its dimensions. The mode partial becomes all or nothing: the protocol has no
// partial grants.
func (ds domains) addPolicy(p *enforce.Rule, e engine.Engine) error {
	name := p.Name
	for _, d := range ds {
		if d.rules != nil && (d.name == name || d.histories == name) {
			return fmt.Errorf("envoy: policy %q: the name is taken by a domain of the Envoy configuration; "+
				"rename one of them", name)
		}
	}
	d := &domain{name: name, histories: envoyconf.PolicyName(name), policy: p}
	if p.Mode == weir.Partial {
		whole := *p.Definition
		whole.Mode = weir.AllOrNothing
		var err error
		if d.policy, err = enforce.NewRule(&whole, e); err != nil {
			return err
		}
		d.policy.Handle = p.Handle
	}
	for i := range d.policy.Compiled.Limits {
		d.shown = append(d.shown, toShownLimit(&d.policy.Compiled.Limits[i]))
	}
	ds[name] = d
	return nil
}

// step is how the decisions of a request come in, which may take several.
var step = &calls.Via{Protocol: observe.GRPC, Step: true}

// note counts the outcome of an item, unless the policy is a shadow: its steps are counted.
func (d *domain) note(c observe.Call) {
	if !d.policy.Shadow {
		calls.Of(d.policy).Note(c)
	}
}

// toShownLimit converts a limit to the nearest one that the protocol can express. Hits are
// held for the longest time of a concurrency limit, because the protocol has no settlement, so
// such a limit is one per window.
func toShownLimit(limit *engine.Limit) *shownLimit {
	l := limit.Describe()
	if p := limit.Period; p != nil && p.Period == weir.Month {
		return newShownLimit(l.Name, uint32(min(l.Max, math.MaxUint32)), envoyconf.Month, 0)
	}
	hits, window := l.Max, l.Window+l.MaxHold // one of them is 0
	if l.Burst > l.Max {
		// The same rate, for as many hits as can remain.
		bucket := weir.Limit{Kind: l.Kind, Max: l.Max, Window: l.Window, Burst: l.Burst}
		hits, window = l.Burst, bucket.FillTime()
	}
	unit, n := envoyconf.Express(window)
	if n == 1 {
		n = 0
	}
	return newShownLimit(l.Name, uint32(min(hits, math.MaxUint32)), unit, n)
}

// target returns the target of entries: the dimensions of the policy, and plan-by. A policy
// without dimensions accepts any entries, since a descriptor must have one.
func (d *domain) target(entries []envoyconf.Entry) (enforce.Target, error) {
	if len(d.policy.Dimensions()) == 0 {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e envoyconf.Entry) bool { return e.Name != d.policy.PlanBy })
	}
	for i, e := range entries {
		if slices.ContainsFunc(entries[:i], func(v envoyconf.Entry) bool { return v.Name == e.Name }) {
			return enforce.Target{}, fmt.Errorf("entries: %w", calls.BadInput("the key %q is given twice; give it once", e.Name))
		}
	}
	t, err := d.policy.Target(entries)
	if err == nil {
		err = d.policy.Compiled.CheckKey(&t.Key)
	}
	if err != nil {
		err = fmt.Errorf("entries: %w", err)
	}
	return t, err
}
