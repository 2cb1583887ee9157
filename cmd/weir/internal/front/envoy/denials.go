package envoy

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
)

// denials are the keys that a rule denies most. The sketch is made at the first denial.
type denials struct {
	names  []string // of the values of a key
	sketch atomic.Pointer[topkeys.Sketch]
}

// newDenials returns the denials of a rule: those of before, which may be nil, if the
// names are the same.
func newDenials(r *envoyconf.Rule, before *denials) *denials {
	d := &denials{}
	for _, i := range r.Varying {
		name := r.Keys[i]
		if slices.Contains(d.names, name) {
			name = fmt.Sprintf("%s#%d", name, i+1)
		}
		d.names = append(d.names, name)
	}
	if before != nil && slices.Equal(before.names, d.names) {
		return before
	}
	return d
}

// add counts a denial of a descriptor with those entries.
func (d *denials) add(s *Service, r *envoyconf.Rule, entries []*common.RateLimitDescriptor_Entry) {
	sketch := d.sketch.Load()
	if sketch == nil {
		d.sketch.CompareAndSwap(nil, s.options.Top())
		sketch = d.sketch.Load()
	}
	var few [4]string
	values := few[:0]
	for _, i := range r.Varying {
		values = append(values, entries[i].GetValue())
	}
	// By the clock of this process: the clock of the store may differ.
	sketch.Add(weir.K(values...), time.Now().UnixMicro())
}

// noteDenial counts a denial of item i by its rule, also in shadow_mode.
func (s *Service) noteDenial(c *call, i int) {
	it := &c.items[i]
	if s.options.Top != nil && it.n > 0 && it.limit.denials != nil {
		it.limit.denials.add(s, it.limit.rule, c.request.Descriptors[i].Entries)
	}
}

// RuleDenials are the keys that a rule denies most.
type RuleDenials struct {
	Domain, Rule string
	Names        []string        // of the values of a key
	Sketch       *topkeys.Sketch // of such keys
}

// EachRuleDenials calls yield with every rule in force that has denied something.
func (s *Service) EachRuleDenials(yield func(RuleDenials)) {
	for name, d := range *s.domains.Load() {
		for _, l := range d.limits {
			if sketch := l.denials.sketch.Load(); sketch != nil {
				yield(RuleDenials{name, ruleIn(name, l.rule.Path), l.denials.names, sketch})
			}
		}
	}
}
