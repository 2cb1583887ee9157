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

// Overridden stands for the rule of requests with limits of their own. No rule has that
// name.
const Overridden = "(override)"

// EachRule calls yield with the hits of every rule in force, and with those of all
// overrides of a domain as one rule. Names come from the configuration. Values of
// requests appear in them only for detailed_metric and value_to_metric, in a bounded
// number.
func (s *Service) EachRule(yield func(domain, rule string, h *Hits)) {
	each := func(domain, path string, h *Hits) { yield(printable(domain), printable(ruleIn(domain, path)), h) }
	for name, d := range *s.domains.Load() {
		if d.overridden != nil {
			each(name, Overridden, d.overridden)
		}
		for _, l := range d.limits {
			each(name, l.rule.Path, l.tally)
			l.tally.details.Range(func(path, t any) bool {
				each(name, path.(string), t.(*Hits))
				return true
			})
		}
	}
}

// ruleIn returns a rule's path without the domain that it begins with.
func ruleIn(domain, path string) string { return strings.TrimPrefix(path, domain+".") }

// printable escapes control characters, which terminals act on: names are any text.
func printable(name string) string { return string(answer.Printable([]byte(name))) }
