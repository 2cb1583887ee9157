package envoy

import (
	"fmt"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/enforce"
)

// call is the state of one request. It is reused for later requests, so answers must not
// reference it.
type call struct {
	request  *pb.RateLimitRequest
	domain   *domain           // nil = unknown
	items    []item            // one for each descriptor
	asked    []enforce.Item    // scratch for decisions
	entries  []envoyconf.Entry // entries of the descriptor that is being resolved
	text     []byte            // scratch for keys
	replaced map[string]bool   // rule names in the replaces of an applied rule; nil = none

	err      error    // error of the first item without a decision
	over     bool     // the request is denied
	degraded bool     // a fallback answered
	warnings []string // the limits with a warning on this request
}

// maxDescriptors bounds the descriptors of a request, because each may take several steps of
// the store.
const maxDescriptors = 256

// maxKept bounds the number of entries with memory that is kept for later requests.
const maxKept = 256

// reset clears the call for its next use.
func (c *call) reset() {
	if cap(c.entries) > maxKept || cap(c.text) > 1<<16 {
		*c = call{}
		return
	}
	clear(c.items)
	clear(c.asked[:cap(c.asked)])
	clear(c.entries[:cap(c.entries)])
	*c = call{items: c.items[:0], asked: c.asked[:0], entries: c.entries[:0], text: c.text[:0]}
}

// kind is the role of a descriptor in the decision.
type kind uint8

const (
	free      kind = iota // no rule applies
	unlimited             // the rule grants everything
	refunded              // the descriptor gives hits back
	enforced              // the request is denied unless it fits
	shadowed              // the descriptor is decided, and reported as OK
	quota                 // the request is denied if no descriptor of this kind fits
)

// item is one descriptor of a request, with its result.
type item struct {
	kind   kind
	limit  *limit         // nil for a policy
	rule   *enforce.Rule  // the rule of the limit, or the policy
	target enforce.Target // the key in the rule
	n      int64          // hits

	result
	charged     bool   // the last decision charged the hits
	reservation string // id of the reservation of the hits; "" = none
}

// result is the decision about an item.
type result struct {
	over      bool
	remaining int64
	wait      time.Duration // until the same hits fit; may be weir.Never
	reset     time.Duration // until no hit counts any more
	shown     *shownLimit
}

// resolve finds the limit or policy of each descriptor. It charges nothing.
func (s *Service) resolve(c *call) error {
	r := c.request
	if r.GetDomain() == "" {
		return calls.BadInput("domain: rate limit domain must not be empty")
	}
	if len(r.Descriptors) == 0 {
		return calls.BadInput("descriptors: rate limit descriptor list must not be empty")
	}
	if n := len(r.Descriptors); n > maxDescriptors {
		return calls.BadInput("descriptors: %d of them; a request has at most %d", n,
			maxDescriptors)
	}
	c.domain = (*s.domains.Load())[r.Domain]
	if c.domain == nil {
		s.Counts.UnknownDomains.Add(1)
	}
	for i, d := range r.Descriptors {
		c.items = append(c.items, item{})
		if err := s.resolveItem(c, &c.items[i], d); err != nil {
			return fmt.Errorf("descriptors[%d].%w", i, err)
		}
	}
	for i := range c.items { // drop rules that another rule of the request replaces
		it := &c.items[i]
		if it.limit != nil && it.kind != unlimited && c.replaced[it.limit.rule.Name] {
			c.items[i] = item{}
		}
	}
	return nil
}

// resolveItem validates a descriptor and finds its limit or policy.
func (s *Service) resolveItem(c *call, it *item, d *common.RateLimitDescriptor) error {
	if len(d.GetEntries()) == 0 {
		return calls.BadInput("entries must not be empty")
	}
	c.entries = c.entries[:0]
	for j, e := range d.Entries {
		if e.GetKey() == "" {
			return calls.BadInput("entries[%d].key must not be empty", j)
		}
		c.entries = append(c.entries, envoyconf.Entry{Name: e.Key, Value: e.Value})
	}
	it.n = int64(max(c.request.HitsAddend, 1))
	if hits := d.HitsAddend; hits != nil {
		if hits.Value > uint64(weir.MaxUnits) {
			return calls.BadInput("hits_addend: %d is above the largest, %d", hits.Value,
				weir.MaxUnits)
		}
		it.n = int64(hits.Value)
	}
	if err := checkOverride(d.Limit); err != nil {
		return err
	}
	return s.findLimit(c, it, d)
}

// findLimit sets the limit or policy of a descriptor by the entries in c.entries.
func (s *Service) findLimit(c *call, it *item, d *common.RateLimitDescriptor) (err error) {
	domain := c.domain
	switch {
	case domain == nil:
		return nil
	case d.Limit != nil:
		it.limit, err = s.override(domain, c, d.Limit)
	case domain.policy != nil:
		it.kind, it.rule = enforced, domain.policy
		it.target, err = s.target(domain, c.entries)
	default:
		if r := domain.rules.Match(c.entries); r != nil {
			it.limit = domain.limits[r.Index]
		}
	}
	if err == nil && it.limit != nil {
		it.applyRule(c)
	}
	if d.IsNegativeHits && it.limited() {
		it.kind = refunded
	}
	return err
}

// applyRule sets the item's kind and key by its limit.
func (it *item) applyRule(c *call) {
	r := it.limit.rule
	for _, name := range r.Replaces {
		if c.replaced == nil {
			c.replaced = map[string]bool{}
		}
		c.replaced[name] = true
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
	if it.kind != unlimited {
		it.rule = it.limit.enforced
		it.target.Key = it.limit.key(c)
	}
}
