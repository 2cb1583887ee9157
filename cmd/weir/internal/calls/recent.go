package calls

import (
	"sync"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/enforce"
)

// The recent counts of a policy are those of the last Steps steps of StepTime: fifteen minutes.
const (
	StepTime = 5 * time.Second
	Steps    = 180
)

// maxRecent is the number of policies with recent counts, the first that have calls. Each takes
// 7 KiB.
const maxRecent = 256

// Counts are calls of a policy by their result.
type Counts struct {
	Allowed   int64 `json:"allowed" jsonschema:"in full or in part"`
	Denied    int64 `json:"denied"`
	WouldDeny int64 `json:"would_deny" jsonschema:"allowed by a shadow policy that would have denied them"`
	Waiting   int64 `json:"waiting" jsonschema:"of those allowed: their use begins later"`
	Errors    int64 `json:"errors"`
}

// plus returns the counts plus times of others.
func (c Counts) plus(times int64, o *Counts) Counts {
	c.Allowed += times * o.Allowed
	c.Denied += times * o.Denied
	c.WouldDeny += times * o.WouldDeny
	c.Waiting += times * o.Waiting
	c.Errors += times * o.Errors
	return c
}

// Totals returns the calls since the start.
func (p *Rule) Totals() Counts {
	return Counts{
		Allowed:   p.Calls(observe.Allowed) + p.Calls(observe.Partial),
		Denied:    p.Calls(observe.Denied),
		WouldDeny: p.Calls(observe.WouldDeny),
		Waiting:   p.waiting.Load(),
		Errors:    p.Calls(observe.Error),
	}
}

// recent holds counts by steps. They are differences of the counters that exist anyway, so they
// cost a decision nothing.
type recent struct {
	ring    []Counts // step k is at k % Steps; nil while there are none
	newest  int64    // the newest step: its begin in units of StepTime
	sampled int64    // the instant of the last sample, microseconds since 1970
	before  Counts   // the counters at that instant
	late    bool     // calls came while maxRecent policies had rings
}

// step returns the step of an instant in microseconds since 1970.
func step(at int64) int64 { return at / StepTime.Microseconds() }

// begin makes the ring, for calls after the instant of the last sample.
func (r *recent) begin(sampled, now int64) {
	r.ring = make([]Counts, Steps)
	r.newest = step(now)
	r.sampled = sampled
}

// add adds the calls since the last sample. They belong to the step in the middle of that time.
func (r *recent) add(now int64, totals Counts) {
	newest := step(now)
	switch ahead := newest - r.newest; {
	case ahead >= Steps || ahead <= -Steps: // a long pause, or another clock
		clear(r.ring)
		r.newest = newest
		r.sampled = now
	case ahead > 0:
		for k := r.newest + 1; k <= newest; k++ {
			r.ring[k%Steps] = Counts{}
		}
		r.newest = newest
	}
	middle := step((r.sampled + now) / 2)
	middle = min(max(middle, r.newest-Steps+1), r.newest)
	at := &r.ring[middle%Steps]
	*at = at.plus(1, &totals).plus(-1, &r.before)
	r.sampled = now
	r.before = totals
}

// Sampler reads and writes the recent counts of policies. The zero Sampler is ready for use.
type Sampler struct {
	mu      sync.Mutex // protects the following, and the recent counts of all policies
	sampled int64      // the instant of the last sample, microseconds since 1970; 0 = none
}

// Sample adds the calls of rules since the last sample to their recent counts. The server calls it
// in every step.
func (s *Sampler) Sample(rules []*enforce.Rule, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := maxRecent
	for _, r := range rules {
		if Of(r).recent.ring != nil {
			places--
		}
	}
	at := now.UnixMicro()
	before := s.sampled
	if before == 0 {
		before = at
	}
	s.sampled = at
	for _, r := range rules {
		p := Of(r)
		totals := p.Totals()
		of := &p.recent
		switch {
		case of.ring != nil:
			of.add(at, totals)
		case totals == (Counts{}):
		case places <= 0:
			of.late = true
		default:
			places--
			of.begin(before, at)
			if of.late {
				of.before = totals // when they came is not known
			}
			of.add(at, totals)
		}
	}
}

// Recent are the recent counts of a policy as of the last sample.
type Recent struct {
	Sum   Counts
	Steps []Counts // Steps of them, the oldest first; the last one is not over
}

// Recent returns the recent counts of a rule, nil if it has none.
func (s *Sampler) Recent(p *Rule) *Recent {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := &p.recent
	if of.ring == nil {
		return nil
	}
	all := &Recent{}
	for k := of.newest - Steps + 1; k <= of.newest; k++ {
		one := of.ring[k%Steps]
		all.Sum = all.Sum.plus(1, &one)
		all.Steps = append(all.Steps, one)
	}
	return all
}
