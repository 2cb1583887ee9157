package envoyconf

import (
	"strings"

	"github.com/weirlimit/weir/internal/yamlnode"
)

// place is the position of a descriptor in the tree, with the words of each level.
type place struct {
	path    string   // its name in metrics
	keys    []string // of each level
	names   []string // of each level, in metrics
	shared  []string // by level: the pattern if its values share histories, otherwise ""
	metrics []int    // indices of the levels with a metric for each value
}

// below returns the place of a descriptor under p.
func (p *place) below(d *descriptor) *place {
	name := d.key
	if d.value != "" {
		name += "_" + d.value
	}
	c := &place{path: p.path + "." + name,
		keys:    append(p.keys[:len(p.keys):len(p.keys)], d.key),
		names:   append(p.names[:len(p.names):len(p.names)], name),
		shared:  append(p.shared[:len(p.shared):len(p.shared)], ""),
		metrics: p.metrics[:len(p.metrics):len(p.metrics)]}
	if d.shared {
		c.shared[len(c.shared)-1] = name // never empty, unlike the name of a level that is not shared
	}
	if d.valueMetric && !d.shared && (d.value == "" || strings.Contains(d.value, "*")) {
		c.metrics = append(c.metrics, len(c.keys)-1)
	}
	return c
}

// cost returns the memory of the descriptor's place below p, in bytes.
func (d *descriptor) cost(p *place) int {
	const level, part = 64, 16 // bytes of a level above, and of a piece between two *
	return len(p.path) + 2*len(d.key+d.value) + level*(len(p.keys)+1) + part*strings.Count(d.key+d.value, "*")
}

// varying returns the indices of the levels with a history for each value.
func (p *place) varying() (v []int) {
	for i, pattern := range p.shared {
		if pattern == "" {
			v = append(v, i)
		}
	}
	return v
}

// descriptor holds the words of one descriptor, without its limit.
type descriptor struct {
	key, value                    string
	shadow, quota                 bool
	detailed, valueMetric, shared bool
}

// descriptors reads the list of descriptors of a mapping into the node above them.
func (f *file) descriptors(above *node, m members, p *place) {
	for each := range f.sequence(m, "descriptors").Items() {
		f.descriptor(above, each, p)
	}
}

// descriptor reads one descriptor and those below it.
func (f *file) descriptor(above *node, n *yamlnode.Node, p *place) {
	m := f.words(n, "a descriptor", descriptorWords)
	d := f.readDescriptor(n, m)
	f.take(n, d.cost(p))
	here := p.below(d)
	to := &node{shared: d.shared, rule: f.limit(m, d, here)}
	name := Entry{d.key, d.value}
	if above.exact[name] != nil {
		f.fail(n, "give each key and value once on a level", "duplicate descriptor composite key '%s'", here.path)
	}
	if above.exact == nil {
		above.exact = map[Entry]*node{}
	}
	above.exact[name] = to
	if strings.Contains(d.key+d.value, "*") {
		w := wildcard{key: newPattern(d.key), to: to}
		if d.value != "" {
			w.value = newPattern(d.value)
		}
		above.wild = append(above.wild, w)
	}
	if to.rule != nil {
		to.rule.Index = len(f.domain.Rules)
		f.domain.Rules = append(f.domain.Rules, to.rule)
	}
	f.descriptors(to, m, here)
}

// readDescriptor reads the words of a descriptor, except its limit.
func (f *file) readDescriptor(n *yamlnode.Node, m members) *descriptor {
	d := &descriptor{key: f.text(m, "key"), value: f.text(m, "value")}
	if d.key == "" {
		f.fail(n, "write key: NAME", "descriptor has empty key")
	}
	d.shadow, d.quota = f.flag(m, "shadow_mode"), f.flag(m, "quota_mode")
	d.detailed, d.valueMetric = f.flag(m, "detailed_metric"), f.flag(m, "value_to_metric")
	d.shared = f.flag(m, "share_threshold")
	if d.shared && !strings.Contains(d.value, "*") {
		f.fail(m["share_threshold"], "give it a value such as files/*, or leave share_threshold out",
			"share_threshold can only be used with wildcard values (containing '*'), and the value of %s is %q", d.key, d.value)
	}
	return d
}
