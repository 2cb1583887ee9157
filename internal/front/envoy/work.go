package envoy

import (
	"fmt"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/front/envoyconf"
)

// work is what one request is decided on. It is used again and again; answers hold
// nothing of it.
type work struct {
	request  *pb.RateLimitRequest
	domain   *domain // nil = unknown
	now      time.Time
	items    []item
	groups   []group
	states   []weir.LimitState
	entries  []envoyconf.Entry
	text     []byte
	one      [1]*item        // the items of the only group
	replaced map[string]bool // names that some rule replaces; nil = none

	degraded bool // a fallback answered
}

// mostKept is how many items' room is kept for further requests.
const mostKept = 256

// reset forgets what the request held.
func (w *work) reset() {
	if cap(w.items) > mostKept || cap(w.entries) > mostKept || cap(w.text) > 1<<16 {
		*w = work{}
		return
	}
	clear(w.items)
	clear(w.groups)
	clear(w.entries[:cap(w.entries)])
	*w = work{items: w.items[:0], groups: w.groups[:0], states: w.states[:0], entries: w.entries[:0], text: w.text[:0]}
}

// kind says how a descriptor takes part in the decision.
type kind uint8

const (
	free      kind = iota // no rule applies
	unlimited             // its rule grants everything
	refunded              // it gives hits back
	enforced              // it is granted, or the request is refused
	shadowed              // it is decided, and OK all the same
	quota                 // the request is refused only if all of these are
)

// item is one descriptor of a request, and what became of it.
type item struct {
	kind   kind
	quota  bool // counts among those of which not all may be over
	limit  *limit
	value  string
	key    weir.Key    // of a policy, and
	engine weir.Engine // who decides it
	ends   time.Time   // when the fixed window ends; zero if it rolls
	n      int64       // hits

	detail string // what a metric tells it apart by; "" = nothing

	decided
}

// decided is what became of an item.
type decided struct {
	over      bool
	remaining int64
	wait      time.Duration // until the same would be granted; weir.Never
	reset     time.Duration // until nothing is counted any more
	shown     *shown
}

// resolve finds out what a request asks for. It charges nothing.
func (s *Service) resolve(w *work, r *pb.RateLimitRequest) error {
	if r.GetDomain() == "" {
		return badInput("domain: rate limit domain must not be empty")
	}
	if len(r.Descriptors) == 0 {
		return badInput("descriptors: rate limit descriptor list must not be empty")
	}
	w.domain = s.state.Load().domains[r.Domain]
	if w.domain == nil {
		s.counts.unknownDomains.Add(1)
	}
	w.now = s.now()
	for i, d := range r.Descriptors {
		w.items = append(w.items, item{})
		if err := s.resolveOne(w, &w.items[i], r, d); err != nil {
			return within(i, err)
		}
	}
	if w.replaced != nil {
		w.replace()
	}
	return nil
}

// within adds to an error which descriptor it is about.
func within(i int, err error) error { return fmt.Errorf("descriptors[%d].%w", i, err) }

// resolveOne finds what decides a descriptor.
func (s *Service) resolveOne(w *work, it *item, r *pb.RateLimitRequest, d *common.RateLimitDescriptor) error {
	if len(d.GetEntries()) == 0 {
		return badInput("entries must not be empty")
	}
	w.entries = w.entries[:0]
	for j, e := range d.Entries {
		if e.GetKey() == "" {
			return badInput("entries[%d].key must not be empty", j)
		}
		w.entries = append(w.entries, envoyconf.Entry{Key: e.Key, Value: e.Value})
	}
	if err := it.hits(r, d); err != nil {
		return err
	}
	if err := checkOverride(d.Limit); err != nil {
		return err
	}
	return s.match(w, it, d)
}

// hits reads how many hits a descriptor asks for.
func (it *item) hits(r *pb.RateLimitRequest, d *common.RateLimitDescriptor) error {
	it.n = int64(max(r.HitsAddend, 1))
	if d.HitsAddend != nil {
		if d.HitsAddend.Value > uint64(weir.MaxUnits) {
			return badInput("hits_addend: %d is above the largest, %d", d.HitsAddend.Value, weir.MaxUnits)
		}
		it.n = int64(d.HitsAddend.Value)
	}
	if d.IsNegativeHits {
		it.kind = refunded
	}
	return nil
}

// checkOverride reports what is wrong with a limit of the request's own.
func checkOverride(o *common.RateLimitDescriptor_RateLimitOverride) error {
	if o == nil {
		return nil
	}
	unit := envoyconf.Unit(o.Unit)
	if o.Unit <= 0 || int32(o.Unit) > int32(envoyconf.Year) {
		return badInput("limit.unit: %d is not a unit; use SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", o.Unit)
	}
	n := uint32(1)
	if o.UnitMultiplier != nil {
		n = o.UnitMultiplier.Value
	}
	if _, problem := envoyconf.Period(unit, n); problem != "" {
		return badInput("limit.unit_multiplier: %s", problem)
	}
	return nil
}

// match finds the limit for a descriptor whose entries are in w.entries.
func (s *Service) match(w *work, it *item, d *common.RateLimitDescriptor) (err error) {
	domain, refund := w.domain, it.kind == refunded
	it.kind = free
	switch {
	case domain == nil:
		return nil
	case d.Limit != nil:
		it.limit, err = s.override(domain, w, d.Limit, w.entries)
	case domain.addressed != nil:
		it.kind = enforced
		err = domain.addressed.address(it, w.entries)
	default:
		if r := domain.rules.Match(w.entries); r != nil {
			it.limit = domain.limits[r.Index]
		}
	}
	if err != nil || it.limit == nil && it.kind == free {
		return err
	}
	if it.limit != nil {
		it.classify(w)
		if it.kind != unlimited && it.limit.weir.By != nil {
			it.value, it.ends = it.limit.value(w, w.entries, w.now)
		}
	}
	if it.limit != nil && len(it.limit.rule.Told) > 0 {
		it.detail = detailOf(domain.name, it.limit.rule, w.entries)
	}
	it.quota = it.kind != unlimited && (s.options.Quota || it.limit != nil && it.limit.rule.Quota)
	switch {
	case refund && it.kind != unlimited:
		it.kind = refunded
	case s.options.Quota && it.kind == enforced:
		it.kind = quota
	}
	return nil
}

// classify says how the item's limit takes part.
func (it *item) classify(w *work) {
	r := it.limit.rule
	for _, name := range r.Replaces {
		if w.replaced == nil {
			w.replaced = map[string]bool{}
		}
		w.replaced[name] = true
	}
	switch {
	case r.Unlimited:
		it.kind = unlimited
	case r.Shadow:
		it.kind = shadowed
	case r.Quota:
		it.kind = quota
	default:
		it.kind = enforced
	}
}

// replace takes out the items whose rules are replaced by others of the request.
func (w *work) replace() {
	for i := range w.items {
		it := &w.items[i]
		if it.limit != nil && it.kind != unlimited && w.replaced[it.limit.rule.Name] {
			w.items[i] = item{}
		}
	}
}
