package envoyconf

import (
	"strings"

	"go.yaml.in/yaml/v3"
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

// descriptors reads a list of descriptors into the node above it.
func (f *file) descriptors(above *node, n *yaml.Node, p *place, depth int) error {
	if n == nil {
		return nil
	}
	list, err := f.sequence(n, "descriptors")
	if err != nil {
		return err
	}
	for _, each := range list {
		if err := f.descriptor(above, each, p, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// descriptor reads one descriptor and those below it.
func (f *file) descriptor(above *node, n *yaml.Node, p *place, depth int) error {
	members, err := f.words(n, "a descriptor", descriptorWords, depth)
	if err != nil {
		return err
	}
	d := descriptor{file: f, node: n}
	if err := d.read(members); err != nil {
		return err
	}
	if err := d.take(n, d.cost(p)); err != nil {
		return err
	}
	here := p.below(&d)
	to := &node{shared: d.shared}
	if to.rule, err = d.limit(members, here); err != nil {
		return err
	}
	name := Entry{d.key, d.value}
	if above.exact[name] != nil {
		return f.fail(n, "give each key and value once on a level", "duplicate descriptor composite key '%s'", here.path)
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
	return f.descriptors(to, members.at("descriptors"), here, depth)
}

// descriptor holds the words of one descriptor, without its limit.
type descriptor struct {
	*file
	node *yaml.Node

	key, value                    string
	shadow, quota                 bool
	detailed, valueMetric, shared bool
	metadata                      map[string]any
}

// read sets all fields except the limit.
func (d *descriptor) read(m members) (err error) {
	for _, text := range []struct {
		word string
		to   *string
	}{{"key", &d.key}, {"value", &d.value}} {
		if n := m.at(text.word); n != nil {
			if *text.to, err = d.text(n, text.word); err != nil {
				return err
			}
		}
	}
	if d.key == "" {
		return d.fail(d.node, "write key: NAME", "descriptor has empty key")
	}
	for _, flag := range []struct {
		word string
		to   *bool
	}{{"shadow_mode", &d.shadow}, {"quota_mode", &d.quota}, {"detailed_metric", &d.detailed},
		{"value_to_metric", &d.valueMetric}, {"share_threshold", &d.shared}} {
		if n := m.at(flag.word); n != nil {
			if *flag.to, err = d.flag(n, flag.word); err != nil {
				return err
			}
		}
	}
	if d.shared && !strings.Contains(d.value, "*") {
		return d.fail(m.at("share_threshold"), "give it a value such as files/*, or leave share_threshold out",
			"share_threshold can only be used with wildcard values (containing '*'), and the value of %s is %q", d.key, d.value)
	}
	if n := m.at("metadata"); n != nil {
		d.metadata, err = d.freeMap(n)
	}
	return err
}
