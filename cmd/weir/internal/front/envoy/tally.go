package envoy

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
)

// Hits counts the hits of a rule since the rule came into force.
type Hits struct {
	Granted, Denied atomic.Int64
	Shadowed        atomic.Int64 // over the limit of a rule in shadow_mode
	Refunded        atomic.Int64 // given back by is_negative_hits
	Near            atomic.Int64 // of those granted: of the last fifth of the limit

	details     sync.Map // name with values to *Hits, of a rule with metrics for each value
	detailCount atomic.Int64
}

// Requests choose the values in metrics, and metrics must not grow without bound.
const (
	maxDetails     = 1000 // names with values of a rule
	maxDetailBytes = 512  // of one name
)

// of returns the tally of requests with those values. It returns t for further names
// beyond the bounds.
func (t *Hits) of(detail string) *Hits {
	if detail == "" || len(detail) > maxDetailBytes {
		return t
	}
	if d, ok := t.details.Load(detail); ok {
		return d.(*Hits)
	}
	if t.detailCount.Add(1) > maxDetails {
		t.detailCount.Add(-1)
		return t
	}
	d, loaded := t.details.LoadOrStore(detail, new(Hits))
	if loaded {
		t.detailCount.Add(-1)
	}
	return d.(*Hits)
}

// near returns the number of granted hits above four fifths of the limit, as the
// reference counts them.
func (it *item) near() int64 {
	limit := int64(it.limit.rule.Requests)
	return max(min(limit-it.remaining-limit*4/5, it.n), 0)
}

// detailOf returns the metric name for requests of a rule with detailed_metric or
// value_to_metric, as the reference names it. It has the values of r.MetricLevels, and
// the configured name of all other levels. Values that share a threshold appear as their
// pattern.
func detailOf(domain string, r *envoyconf.Rule, entries []envoyconf.Entry) string {
	b := []byte(domain)
	levels := r.MetricLevels
	for i, e := range entries {
		b = append(b, '.')
		if len(levels) == 0 || levels[0] != i {
			b = append(b, r.Levels[i]...)
			continue
		}
		levels = levels[1:]
		b = append(b, e.Key...)
		if e.Value != "" {
			b = append(append(b, '_'), e.Value...)
		}
	}
	return string(b)
}

// count counts the hits of every item of a decided call.
func (s *Service) count(c *call) {
	for i := range c.items {
		it := &c.items[i]
		if it.limit == nil {
			c.notePolicy(it)
			continue
		}
		t := it.limit.tally.of(it.detail)
		switch {
		case it.kind == free:
		case it.kind == refunded:
			t.Refunded.Add(it.n)
		case it.kind == shadowed && it.over:
			t.Shadowed.Add(it.n)
			s.noteDenial(c, i)
		case it.over:
			t.Denied.Add(it.n)
			if c.over { // not a quota that is over beside another one that is not
				s.noteDenial(c, i)
			}
		case !c.over:
			t.Granted.Add(it.n)
			if it.kind != unlimited && !c.degraded { // a fallback may not know the remaining hits
				t.Near.Add(it.near())
			}
		}
	}
}

// notePolicy counts an item with a policy. An item that fits in a denied
// request was not charged and is not reported.
func (c *call) notePolicy(it *item) {
	if it.kind == free {
		return
	}
	o := observe.Call{Protocol: observe.GRPC, Degraded: c.degraded}
	switch {
	case it.kind == refunded:
		o.Outcome = observe.Refunded
	case it.n == 0:
		o.Outcome = observe.Peeked
	case it.over:
		o.Outcome, o.Limit, o.Key, o.At = observe.Denied, it.shown.GetName(), it.target.Key, time.Now().UnixMicro()
	case c.over:
		return
	}
	c.domain.policy.note(o)
}

// noteError counts a call without a decision for its policy, except for
// bad input.
func (c *call) noteError(err error) {
	d := c.domain
	if d == nil || d.policy == nil || status.Code(err) == codes.InvalidArgument {
		return
	}
	d.policy.note(observe.Call{Protocol: observe.GRPC, Outcome: observe.Error})
}
