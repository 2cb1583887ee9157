package envoy

import (
	"strings"

	"github.com/weirlimit/weir/internal/answer"
)

// Stats is what became of requests since the start.
type Stats struct {
	OK, Over       int64
	Failed         int64 // no decision could be made
	BadInputs      int64
	UnknownDomains int64 // for a domain that is neither configured nor a policy; they are answered OK
	Kept           int64 // hits of refused requests that stay charged, since the store could not be asked to take them back
}

// Stats returns the counters of requests.
func (s *Service) Stats() Stats {
	c := &s.counts
	return Stats{c.ok.Load(), c.over.Load(), c.failed.Load(), c.badInputs.Load(), c.unknownDomains.Load(), c.kept.Load()}
}

// Hits is what became of the hits of a rule.
type Hits struct {
	Domain, Rule    string
	Granted, Denied int64
	Shadowed        int64 // over the limit of a rule in shadow_mode
	Refunded        int64 // given back, as asked for
	Near            int64 // of those granted: of the last fifth of the limit
}

// Overridden stands for the rule where requests bring limits of their own. No rule has
// that name.
const Overridden = "(override)"

// EachRule calls yield with the hits of every rule in force, and of all overrides of a
// domain as of one. Names are words of the
// configuration; values of requests are in them only where detailed_metric or
// value_to_metric asks for it, and then a bounded number of them.
func (s *Service) EachRule(yield func(Hits)) {
	for name, d := range s.state.Load().domains {
		if d.overridden != nil {
			yield(d.overridden.hits(name, Overridden))
		}
		for _, l := range d.limits {
			yield(l.tally.hits(name, l.rule.Path))
			l.tally.details.Range(func(path, t any) bool {
				yield(t.(*tally).hits(name, path.(string)))
				return true
			})
		}
	}
}

// ruleIn is a rule's path without the domain that it begins with.
func ruleIn(domain, path string) string { return strings.TrimPrefix(path, domain+".") }

// printable escapes characters that act in a terminal: names are any text.
func printable(name string) string { return string(answer.Printable([]byte(name))) }

// hits returns the numbers of the tally; path begins with the domain.
func (t *tally) hits(domain, path string) Hits {
	return Hits{Domain: printable(domain), Rule: printable(ruleIn(domain, path)),
		Granted: t.granted.Load(), Denied: t.denied.Load(), Shadowed: t.shadowed.Load(), Refunded: t.refunded.Load(), Near: t.near.Load()}
}
