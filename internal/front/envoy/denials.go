package envoy

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/topkeys"
)

// denials is whom a rule denies. There is no sketch before the first.
type denials struct {
	names  []string // of the values of a key
	sketch atomic.Pointer[topkeys.Sketch]
}

// newDenials returns those of a rule, or, if they are of the same names, before, which
// may be nil.
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

// note counts a denial of a descriptor with those entries.
func (d *denials) note(s *Service, r *envoyconf.Rule, entries []*common.RateLimitDescriptor_Entry) {
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
	// By the clock of this process: that of the store may be another.
	sketch.Add(weir.K(values...), time.Now().UnixMicro())
}

// noteDenial tells whom a rule denied, or would have denied if it did not only watch.
func (s *Service) noteDenial(w *work, i int) {
	it := &w.items[i]
	if s.options.Top != nil && it.n > 0 && it.limit.denials != nil {
		it.limit.denials.note(s, it.limit.rule, w.request.Descriptors[i].Entries)
	}
}

// Denying is a rule that has denied something.
type Denying struct {
	Domain, Rule string
	Names        []string        // of the values of a key
	Sketch       *topkeys.Sketch // of such keys
}

// EachDenying calls yield with every rule in force that has denied something.
func (s *Service) EachDenying(yield func(Denying)) {
	for name, d := range s.state.Load().domains {
		for _, l := range d.limits {
			if sketch := l.denials.sketch.Load(); sketch != nil {
				yield(Denying{name, ruleIn(name, l.rule.Path), l.denials.names, sketch})
			}
		}
	}
}
