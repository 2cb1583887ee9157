package envoy

import (
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/answer"
)

// Counts are the numbers of requests since the start.
type Counts struct {
	OK, Over       atomic.Int64
	Failed         atomic.Int64 // no decision could be made
	BadInputs      atomic.Int64
	UnknownDomains atomic.Int64 // for a domain that is neither configured nor a policy; they are answered OK
	Kept           atomic.Int64 // hits of denied requests that stay charged, since the store did not answer the refund
}

// Hits are the counted hits of a rule.
type Hits struct {
	Domain, Rule    string
	Granted, Denied int64
	Shadowed        int64 // over the limit of a rule in shadow_mode
	Refunded        int64 // given back by is_negative_hits
	Near            int64 // of those granted: of the last fifth of the limit
}

// Overridden stands for the rule of requests with limits of their own. No rule has that
// name.
const Overridden = "(override)"

// EachRule calls yield with the hits of every rule in force, and with those of all
// overrides of a domain as one rule. Names come from the configuration. Values of
// requests appear in them only for detailed_metric and value_to_metric, in a bounded
// number.
func (s *Service) EachRule(yield func(Hits)) {
	for name, d := range *s.domains.Load() {
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

// ruleIn returns a rule's path without the domain that it begins with.
func ruleIn(domain, path string) string { return strings.TrimPrefix(path, domain+".") }

// printable escapes control characters, which terminals act on: names are any text.
func printable(name string) string { return string(answer.Printable([]byte(name))) }

// hits returns the numbers of the tally; path begins with the domain.
func (t *tally) hits(domain, path string) Hits {
	return Hits{Domain: printable(domain), Rule: printable(ruleIn(domain, path)),
		Granted: t.granted.Load(), Denied: t.denied.Load(), Shadowed: t.shadowed.Load(), Refunded: t.refunded.Load(), Near: t.near.Load()}
}
