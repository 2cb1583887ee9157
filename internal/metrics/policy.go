package metrics

import (
	"sync/atomic"

	"github.com/weirlimit/weir/internal/observe"
)

// Policy counts what became of the calls for one policy. Its counters are found
// once, when policies are loaded: a call costs an addition, or two of a denial.
type Policy struct {
	*Metrics
	name      string
	limits    []string
	denials   []*atomic.Int64 // by limit
	*outcomes                 // shared by all Policies of this name that followed each other
}

// outcomes are the counters that do not depend on what the policy's limits are.
type outcomes struct {
	calls    [observe.Protocols][observe.Outcomes]atomic.Int64
	degraded atomic.Int64
}

// Policy returns the counters for a policy with those limits. They go on from
// before, which may be nil: limits that are not new keep their counts.
func (m *Metrics) Policy(name string, limits []string, before *Policy) *Policy {
	p := &Policy{Metrics: m, name: name, limits: limits}
	if before == nil {
		before = &Policy{outcomes: new(outcomes)}
	}
	p.outcomes = before.outcomes
	for _, limit := range limits {
		n := before.denialsOf(limit)
		if n == nil {
			n = new(atomic.Int64)
		}
		p.denials = append(p.denials, n)
	}
	return p
}

// denialsOf returns nil for a name that is no limit's.
func (p *Policy) denialsOf(limit string) *atomic.Int64 {
	for i, name := range p.limits { // a handful at most
		if name == limit {
			return p.denials[i]
		}
	}
	return nil
}

// Note counts a call.
func (p *Policy) Note(c observe.Call) {
	p.calls[c.Protocol][c.Outcome].Add(1)
	if c.Degraded {
		p.degraded.Add(1)
	}
	if c.Outcome == observe.Denied {
		if n := p.denialsOf(c.Limit); n != nil {
			n.Add(1)
		}
	}
}

// Calls returns how many calls had an outcome, over all front ends.
func (p *Policy) Calls(o observe.Outcome) (n int64) {
	for f := range p.calls {
		n += p.calls[f][o].Load()
	}
	return n
}
