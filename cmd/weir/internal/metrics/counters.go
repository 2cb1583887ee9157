package metrics

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
)

// Counters counts the calls of one policy by outcome. Its counters are looked up once, when
// policies are loaded: a call costs one addition, a denial two.
type Counters struct {
	*Metrics
	name      string
	limits    []string
	denials   []*atomic.Int64 // by limit
	warnings  []*atomic.Int64 // by limit
	warns     []bool          // by limit: whether it has a share for warnings
	*outcomes                 // shared by the successive Counters of this name
}

// outcomes are the counters that do not depend on the limits.
type outcomes struct {
	calls    [observe.Protocols][observe.Outcomes]atomic.Int64
	degraded atomic.Int64
}

// Counters returns the counters of a policy with those limits. They continue those of
// before, which may be nil: limits of the same name keep their counts. warns reports for
// each limit whether it warns; nil = none does.
func (m *Metrics) Counters(name string, limits []string, warns []bool, before *Counters) *Counters {
	p := &Counters{Metrics: m, name: name, limits: limits, warns: warns}
	if before == nil {
		before = &Counters{outcomes: new(outcomes)}
	}
	p.outcomes = before.outcomes
	for _, limit := range limits {
		denials, warnings := new(atomic.Int64), new(atomic.Int64)
		if i := slices.Index(before.limits, limit); i >= 0 {
			denials, warnings = before.denials[i], before.warnings[i]
		}
		p.denials, p.warnings = append(p.denials, denials), append(p.warnings, warnings)
	}
	return p
}

// ObserveDuration observes the duration of a decision, or of a request for several.
func (m *Metrics) ObserveDuration(f observe.Protocol, d time.Duration) {
	m.took[f].Observe(d.Seconds())
}

// Count counts a call.
func (p *Counters) Count(c observe.Call) {
	p.calls[c.Protocol][c.Outcome].Add(1)
	if c.Degraded {
		p.degraded.Add(1)
	}
	if c.Outcome == observe.Denied {
		if i := slices.Index(p.limits, c.Limit); i >= 0 {
			p.denials[i].Add(1)
		}
	}
}

// Warned counts a grant with the warning of a limit.
func (p *Counters) Warned(limit string) {
	if i := slices.Index(p.limits, limit); i >= 0 {
		p.warnings[i].Add(1)
	}
}

// Calls returns how many calls had an outcome, over all protocols.
func (p *Counters) Calls(o observe.Outcome) (n int64) {
	for f := range p.calls {
		n += p.calls[f][o].Load()
	}
	return n
}

// addDecisions adds the counters of the policies in force.
func (m *Metrics) addDecisions(inForce func() []*Counters) {
	each := func(rows func(p *Counters, yield func(Row))) func(func(Row)) {
		return func(yield func(Row)) {
			for _, p := range inForce() {
				rows(p, yield)
			}
		}
	}
	m.Table("weir_decisions_total", "Calls for a policy by protocol and outcome; error means that no decision was possible.",
		[]string{"policy", "protocol", "outcome"}, each((*Counters).callRows))
	m.Table("weir_denials_total", "Denied attempts by the binding limit.", []string{"policy", "limit"},
		each(func(p *Counters, yield func(Row)) {
			for i, limit := range p.limits {
				yield(Row{[]string{p.name, limit}, p.denials[i].Load()})
			}
		}))
	m.Table("weir_warnings_total", "Grants with a warning: they brought the use of a limit with warn to its share or above.", []string{"policy", "limit"},
		each(func(p *Counters, yield func(Row)) {
			for i, warns := range p.warns {
				if warns {
					yield(Row{[]string{p.name, p.limits[i]}, p.warnings[i].Load()})
				}
			}
		}))
	m.Table("weir_degraded_decisions_total", "Decisions without the store, by when-store-is-down.", []string{"policy"},
		each(func(p *Counters, yield func(Row)) { yield(Row{[]string{p.name}, p.degraded.Load()}) }))
}

// callRows yields the calls. The usual outcomes are always present, so that a rate has a
// start. Other outcomes, and protocols without calls, appear with their first call: a file
// may hold thousands of policies.
func (p *Counters) callRows(yield func(Row)) {
	for f := range p.calls {
		var n [observe.Outcomes]int64
		used := observe.Protocol(f) == observe.HTTP
		for o := range n {
			n[o] = p.calls[f][o].Load()
			used = used || n[o] > 0
		}
		for o := range n {
			outcome := observe.Outcome(o)
			usual := outcome == observe.Allowed || outcome == observe.Denied || outcome == observe.Error
			if n[o] > 0 || used && usual {
				yield(Row{[]string{p.name, observe.Protocol(f).String(), outcome.String()}, n[o]})
			}
		}
	}
}
