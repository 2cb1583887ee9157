package envoy

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// group is the items that one call of the engine decides: items with different limits,
// or one item by a policy.
type group struct {
	engine   engine.Engine
	outage   engine.Outage
	policy   *policyDomain // nil for items with limits
	compiled *engine.Compiled
	key      weir.Key
	n        int64 // the most hits of an item
	mixed    bool  // some items have fewer hits: their limits have a cost of their own
	items    []*item

	calls   [1]engine.Call    // the last call of the engine
	d       weir.Decision     // of the last query
	states  []weir.LimitState // of each limit, if there are several; otherwise d is complete
	charged bool              // the last query charged n hits
}

// groups holds the groups of a call by the kind of their items.
type groups struct{ hard, soft, shadowed []group }

// group distributes the items over as few groups as possible, and prepares these.
func (s *Service) group(c *call) (gs groups, err error) {
	c.groups = slices.Grow(c.groups, len(c.items)) // the results below stay parts of it
	gs.hard = s.gather(c, enforced)
	gs.soft = s.gather(c, quota)
	gs.shadowed = s.gather(c, shadowed)
	for i := range c.groups {
		if err := s.prepare(c, &c.groups[i]); err != nil {
			return gs, err
		}
	}
	return gs, nil
}

// gather distributes the items of a kind.
func (s *Service) gather(c *call, k kind) []group {
	from := len(c.groups)
	for i := range c.items {
		if it := &c.items[i]; it.kind == k {
			if g := s.groupFor(c.groups[from:], it); g != nil {
				g.add(it)
				continue
			}
			c.groups = append(c.groups, group{engine: s.options.Engine, outage: s.options.Outage, n: it.n, items: []*item{it}})
		}
	}
	return c.groups[from:]
}

// groupFor returns the group that the item can join, or nil. Only enforced items share
// groups: the decisions about others are independent.
func (s *Service) groupFor(groups []group, it *item) *group {
	if it.kind != enforced || it.limit == nil || s.options.Cluster != nil && s.options.Cluster() {
		return nil
	}
	for i := range groups {
		if g := &groups[i]; g.fits(it) {
			return g
		}
	}
	return nil
}

// fits reports whether the item can be decided together with those of the group. A peek
// cannot be decided beside charges: an attempt charges all its limits.
func (g *group) fits(it *item) bool {
	if (g.n == 0) != (it.n == 0) || len(g.items) == weir.MaxLimits {
		return false
	}
	for _, other := range g.items {
		if other.limit == nil || other.limit.weir.Name == it.limit.weir.Name {
			return false
		}
	}
	return true
}

func (g *group) add(it *item) {
	g.items = append(g.items, it)
	g.mixed = g.mixed || it.n != g.n
	g.n = max(g.n, it.n)
}

// cost returns the cost of the item's limit in the group. The attempt is for the
// largest number of hits, which varies most between requests: so few policies are compiled.
func (g *group) cost(it *item) int64 {
	if it.n == g.n {
		return 0
	}
	return it.n
}

// prepare sets the group's compiled policy, key and room for states.
func (s *Service) prepare(c *call, g *group) error {
	first := g.items[0]
	switch {
	case first.limit == nil:
		p := c.domain.policy
		g.policy, g.outage, g.key = p, p.WhenStoreIsDown, first.target.Key
		g.compiled = p.Limiter(&first.target, time.Time{}).Compiled()
		if p.varies { // then only states hold the numbers
			g.states = make([]weir.LimitState, len(g.compiled.Limits))
			return nil
		}
	case len(g.items) == 1:
		g.compiled = first.limit.compiled
		g.key = first.limitKey()
	default:
		var err error
		if g.compiled, err = c.domain.combined(c, g); err != nil {
			return err
		}
		g.key = combinedKey(g.items)
	}
	if n := len(g.compiled.Limits); n > 1 {
		g.states = make([]weir.LimitState, n)
	}
	return nil
}

// limitKey returns the key of the item's limit alone.
func (it *item) limitKey() (k weir.Key) {
	if it.limit.weir.By != nil {
		k = weir.K(it.value)
	}
	return k
}

// combined returns the compiled policy of the limits of a group.
func (d *domain) combined(c *call, g *group) (*engine.Compiled, error) {
	key := c.text[:0]
	for _, it := range g.items {
		key = binary.AppendUvarint(binary.AppendUvarint(key, it.limit.id), uint64(g.cost(it)))
	}
	c.text = key
	if p := d.compiled.get(key); p != nil {
		return p, nil
	}
	p := weir.Policy{Name: d.histories}
	for _, it := range g.items {
		l := it.limit.weir
		l.Cost = g.cost(it)
		p.Limits = append(p.Limits, l)
	}
	compiled, err := p.Compile()
	if err == nil {
		d.compiled.put(key, compiled)
	}
	return compiled, err
}

// combinedKey returns the key of such a policy: a value for each limit with a dimension.
func combinedKey(items []*item) weir.Key {
	var room [weir.MaxLimits]string
	values := room[:0]
	for _, it := range items {
		if it.limit.weir.By != nil {
			values = append(values, it.value)
		}
	}
	return weir.K(values...)
}
