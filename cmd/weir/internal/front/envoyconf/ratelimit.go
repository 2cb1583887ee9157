package envoyconf

import (
	"cmp"
	"strings"

	"github.com/weirlimit/weir/internal/yamlnode"
)

// limit reads the rate_limit of a descriptor at a place; nil if it has none.
func (f *file) limit(m members, d *descriptor, p *place) *Rule {
	n := m["rate_limit"]
	if n == nil || n.Null() {
		return nil
	}
	words := f.words(n, "rate_limit", limitWords)
	r := &Rule{Path: p.path, Shadow: d.shadow, Quota: d.quota,
		History: HistoryName("rule", p.keys, p.shared), Varying: p.varying(),
		Levels: p.names, MetricLevels: p.metrics, Keys: p.keys}
	if d.detailed {
		r.MetricLevels = r.Varying
	}
	r.Unlimited = f.flag(words, "unlimited")
	f.period(r, n, words)
	r.Name = f.text(words, "name")
	r.Replaces = f.replaces(words, r.Name)
	return r
}

// period reads the number of requests and the period.
func (f *file) period(r *Rule, at *yamlnode.Node, words members) {
	word := f.text(words, "unit")
	if n := words["unit"]; n != nil {
		at = n
	}
	r.Unit = parseUnit(word)
	switch {
	case r.Unlimited && word != "":
		f.fail(at, "leave unit out", "should not specify rate limit unit when unlimited")
	case r.Unlimited:
		return
	case r.Unit == 0:
		f.fail(at, "use "+unitWords, "invalid rate limit unit '%s'", word)
	case words["requests_per_unit"] == nil:
		f.fail(at, "write 0 to deny everything", "requests_per_unit is missing")
	}
	r.Requests = f.number(words, "requests_per_unit")
	multiplier := uint32(1)
	if n := words["unit_multiplier"]; n != nil {
		r.Multiplier = f.number(words, "unit_multiplier")
		multiplier, at = r.Multiplier, n
	}
	var problem string
	if r.Window, problem = Period(r.Unit, multiplier); problem != "" {
		problem, next, _ := strings.Cut(problem, "; ")
		f.fail(at, cmp.Or(next, "use a smaller one"), "unit_multiplier: %s", problem)
	}
}

// replaces reads a list of names of other rules.
func (f *file) replaces(words members, own string) (names []string) {
	for each := range f.sequence(words, "replaces").Items() {
		name := f.text(f.words(each, "replaces", replaceWords), "name")
		switch name {
		case "":
			f.fail(each, "write the name of another descriptor", "should not have an empty replaces entry")
		case own:
			f.fail(each, "remove it", "replaces should not contain name of same descriptor")
		}
		names = append(names, name)
	}
	return names
}
