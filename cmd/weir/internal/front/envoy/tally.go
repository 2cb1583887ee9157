package envoy

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/answer"
)

// Hits counts the hits of a rule since the rule came into force.
type Hits struct {
	Granted, Denied atomic.Int64
	Shadowed        atomic.Int64 // over the limit of a rule in shadow_mode
	Refunded        atomic.Int64 // given back by is_negative_hits
	Near            atomic.Int64 // granted hits in the last fifth of the limit
}

// nearHits returns the number of granted hits above four fifths of the limit, as the
// reference counts them.
func (it *item) nearHits() int64 {
	limit := int64(it.limit.rule.Requests)
	return max(min(limit-it.remaining-limit*4/5, it.n), 0)
}

// countHits counts the hits of every item of a decided call.
func (c *call) countHits() {
	for i := range c.items {
		it := &c.items[i]
		if it.limit == nil {
			c.notePolicy(it)
			continue
		}
		t := it.limit.tally
		switch {
		case it.kind == free, it.kind == refunded: // refund has counted the hits
		case it.kind == shadowed && it.over:
			t.Shadowed.Add(it.n)
			c.noteDenial(i)
		case it.over:
			t.Denied.Add(it.n)
			if c.over { // another quota may have granted the request
				c.noteDenial(i)
			}
		case !c.over:
			t.Granted.Add(it.n)
			if it.kind != unlimited && !c.degraded { // a fallback may not know the remaining hits
				t.Near.Add(it.nearHits())
			}
		}
	}
}

// notePolicy counts an item with a policy. An item that fits in a denied request was not
// charged, so it is not counted.
func (c *call) notePolicy(it *item) {
	if it.kind == free {
		return
	}
	o := observe.Call{Protocol: observe.GRPC, Degraded: c.degraded, Key: it.target.Key}
	switch {
	case it.kind == refunded:
		o.Outcome = observe.Refunded
	case it.n == 0:
		o.Outcome = observe.Peeked
	case it.over:
		o.Outcome = observe.Denied
		o.Limit = it.shown.GetName()
	case c.over:
		return
	}
	c.domain.note(o)
}

// namesOf returns the names of those values of a rule that have separate histories.
func namesOf(r *envoyconf.Rule) (names []string) {
	for _, i := range r.Varying {
		name := r.Keys[i]
		if slices.Contains(names, name) {
			name = fmt.Sprintf("%s#%d", name, i+1)
		}
		names = append(names, name)
	}
	return names
}

// noteDenial adds the key of item i to the keys that its rule denies, also in shadow_mode.
func (c *call) noteDenial(i int) {
	it := &c.items[i]
	if it.limit.top == nil || it.n == 0 {
		return
	}
	var few [4]string
	values := few[:0]
	for _, at := range it.limit.rule.Varying {
		values = append(values, c.request.Descriptors[i].Entries[at].GetValue())
	}
	// The sketch has only instants by the clock of this process. That of the store may differ.
	it.limit.top.Add(weir.K(values...), time.Now().UnixMicro())
}

// EachRuleDenials calls yield for every rule in force, with the names of its values and the
// keys that it denies most.
func (s *Service) EachRuleDenials(yield func(domain, rule string, names []string, top *topkeys.Sketch)) {
	for name, d := range *s.domains.Load() {
		for _, l := range d.limits {
			if l.top != nil {
				yield(name, ruleIn(name, l.rule.Path), namesOf(l.rule), l.top)
			}
		}
	}
}

// Counts are the numbers of requests since the start.
type Counts struct {
	OK, Over  atomic.Int64
	Failed    atomic.Int64 // no decision could be made
	BadInputs atomic.Int64
	Kept      atomic.Int64 // hits of denied or failed requests that stay charged

	// UnknownDomains counts requests for a domain that is neither configured nor a policy. They
	// are answered OK.
	UnknownDomains atomic.Int64
}

// Overridden is the name under which requests with their own limits are counted. No rule has
// that name.
const Overridden = "(override)"

// EachRule calls yield with the hits of every rule in force, and with the hits of all overrides
// of a domain as one rule. All names come from the configuration.
func (s *Service) EachRule(yield func(domain, rule string, h *Hits)) {
	// Names may contain any text, also characters that control a terminal.
	printable := func(name string) string { return string(answer.Printable([]byte(name))) }
	each := func(domain, path string, h *Hits) {
		yield(printable(domain), printable(ruleIn(domain, path)), h)
	}
	for name, d := range *s.domains.Load() {
		if d.overridden != nil {
			each(name, Overridden, d.overridden)
		}
		for _, l := range d.limits {
			each(name, l.rule.Path, l.tally)
		}
	}
}

// ruleIn returns the path of a rule without the prefix of its domain.
func ruleIn(domain, path string) string { return strings.TrimPrefix(path, domain+".") }
