package envoy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
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
	limits    []*limit          // of rules, by Rule.Index
	policy    *policyDomain     // nil for rules

	overrides  overrides
	overridden *Hits // of all overrides; nil for a policy
}

// compile returns the domains of a configuration and of policies.
func (s *Service) compile(config *envoyconf.Config, policies []*enforce.Rule, before domains) (domains, error) {
	next := domains{}
	if config != nil {
		for _, rules := range config.Domains {
			d, err := s.compileDomain(rules, before[rules.Name])
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
// its counts.
func (s *Service) compileDomain(rules *envoyconf.Domain, before *domain) (*domain, error) {
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
		l.denials = newDenials(r, nil)
		if old := known[ruleID(r)]; old != nil {
			l.tally, l.denials = old.tally, newDenials(r, old.denials)
		}
		d.limits = append(d.limits, l)
	}
	return d, nil
}

// ruleID identifies a rule by its place. Paths alone are ambiguous: keys may hold dots.
func ruleID(r *envoyconf.Rule) string { return strings.Join(r.Keys, "\x00") + "\x00" + r.Path }

var errTaken = errors.New("the name is taken by a domain of the Envoy configuration; rename one of them")

// addPolicy adds a policy as a domain of its name.
func (ds domains) addPolicy(p *enforce.Rule, e engine.Engine) error {
	name := p.Name
	for _, d := range ds {
		if d.rules != nil && (d.name == name || d.histories == name) {
			return fmt.Errorf("envoy: policy %q: %w", name, errTaken)
		}
	}
	d, err := newPolicyDomain(p, e)
	ds[name] = &domain{name: name, histories: envoyconf.PolicyName(name), policy: d}
	return err
}
