package calls

import (
	"github.com/weirlimit/weir/cmd/weir/internal/metrics"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/enforce"
)

// AddMetrics adds the counters of the policies in force, which each scrape reads.
func (o *Observer) AddMetrics(inForce func() []*enforce.Rule) {
	each := func(rows func(p *Rule, yield func(metrics.Row))) func(func(metrics.Row)) {
		return func(yield func(metrics.Row)) {
			for _, r := range inForce() {
				rows(Of(r), yield)
			}
		}
	}
	m := o.Metrics
	m.Table("weir_decisions_total", "Calls for a policy by protocol and outcome; error means that no decision was possible.",
		[]string{"policy", "protocol", "outcome"}, each((*Rule).callRows))
	m.Table("weir_denials_total", "Denied attempts by the binding limit.", []string{"policy", "limit"},
		each(func(p *Rule, yield func(metrics.Row)) {
			for i, l := range p.rule.Compiled.Limits {
				yield(metrics.Row{Labels: []string{p.rule.Name, l.Name}, N: p.limits[i].denials.Load()})
			}
		}))
	m.Table("weir_warnings_total", "Grants with a warning: they brought the use of a limit with warn to its share or above.", []string{"policy", "limit"},
		each(func(p *Rule, yield func(metrics.Row)) {
			for i, l := range p.rule.Compiled.Limits {
				if p.rule.WarnAt(i) > 0 {
					yield(metrics.Row{Labels: []string{p.rule.Name, l.Name}, N: p.limits[i].warnings.Load()})
				}
			}
		}))
	m.Table("weir_degraded_decisions_total", "Decisions without the store, by when-store-is-down.", []string{"policy"},
		each(func(p *Rule, yield func(metrics.Row)) {
			yield(metrics.Row{Labels: []string{p.rule.Name}, N: p.degraded.Load()})
		}))
}

// callRows yields the calls. The usual outcomes are always present, so that a rate has a
// start. Other outcomes, and protocols without calls, appear with their first call: a file
// may hold thousands of policies.
func (p *Rule) callRows(yield func(metrics.Row)) {
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
				yield(metrics.Row{Labels: []string{p.rule.Name, observe.Protocol(f).String(), outcome.String()}, N: n[o]})
			}
		}
	}
}
