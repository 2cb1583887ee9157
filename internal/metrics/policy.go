package metrics

import (
	"sync/atomic"

	"github.com/weirlimit/weir/internal/observe"
)

// Policy counts the calls of one policy by outcome. Its counters are looked up once, when
// policies are loaded: a call costs one addition, a denial two.
type Policy struct {
	*Metrics
	name      string
	limits    []string
	denials   []*atomic.Int64 // by limit
	*outcomes                 // shared by the successive Policies of this name
}

// outcomes are the counters that do not depend on the limits.
type outcomes struct {
	calls    [observe.Protocols][observe.Outcomes]atomic.Int64
	degraded atomic.Int64
}

// Policy returns the counters of a policy with those limits. They continue those of
// before, which may be nil: limits of the same name keep their counts.
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

// denialsOf returns nil for an unknown limit.
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

// Calls returns how many calls had an outcome, over all protocols.
func (p *Policy) Calls(o observe.Outcome) (n int64) {
	for f := range p.calls {
		n += p.calls[f][o].Load()
	}
	return n
}
