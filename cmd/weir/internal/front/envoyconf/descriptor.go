package envoyconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/yamlnode"
	"github.com/weirlimit/weir/policy"
)

// file is the state of reading one file into the Config.
type file struct {
	*Config
	name     string
	document *yamlnode.Document
	domain   *Domain
}

// add reads a file into the Config. After an error the Config is unusable.
func (c *Config) add(name string, src []byte) (err error) {
	f := &file{Config: c, name: name}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *policy.Error: // fail ends the file at its first error
			err = e
		default:
			panic(e)
		}
	}()
	root := f.read(src)
	c.Files++
	m := f.words(root, "the file", rootWords)
	f.open(root, m)
	f.readDescriptors(&f.domain.root, m, &place{Rule: Rule{Path: f.domain.Name}})
	return nil
}

// Words of each mapping. A word of another mapping has no effect and causes a warning.
var (
	rootWords       = []string{"domain", "descriptors"}
	descriptorWords = []string{
		"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata",
	}
	limitWords = []string{
		"unit", "requests_per_unit", "unit_multiplier", "unlimited", "name", "replaces",
	}
	replaceWords = []string{"name"}
)

// open sets the domain of the file. No earlier file has it, unless domains are merged.
func (f *file) open(at *yamlnode.Node, m members) {
	at = cmp.Or(m["domain"], at)
	name := f.text(m, "domain")
	if name == "" {
		f.fail(at, "write domain: NAME", "config file cannot have empty domain")
	}
	if f.domain = f.byName[name]; f.domain != nil {
		if !f.options.MergeDomains {
			f.fail(at, "write it into one file, or merge the files with --envoy-merge-domains",
				"duplicate domain '%s' in config file", name)
		}
		return
	}
	f.domain = &Domain{Name: name, Policy: PolicyName(name)}
	f.byName[name] = f.domain
	f.Domains = append(f.Domains, f.domain)
}

// members are the values of a mapping by their keys.
type members map[string]*yamlnode.Node

// words returns the members of a mapping. Its keys must be among the given words. Words of other
// mappings are a warning, since the reference ignores them. All other keys are an error.
func (f *file) words(n *yamlnode.Node, mapping string, words []string) members {
	all := members{}
	f.addMembers(all, n, mapping, func(key *yamlnode.Node) {
		switch {
		case slices.Contains(words, key.Text):
		case slices.Contains(rootWords, key.Text),
			slices.Contains(descriptorWords, key.Text),
			slices.Contains(limitWords, key.Text):
			f.warnAt(key, "%s has no effect here, in %s; it takes %s", key.Text, mapping,
				strings.Join(words, ", "))
		default:
			f.fail(key, "it takes "+strings.Join(words, ", "),
				"config error, unknown key '%s' in %s", key.Text, mapping)
		}
	})
	return all
}

// maxWarnings bounds the warnings of a configuration.
const maxWarnings = 100

func (c *Config) warn(format string, args ...any) {
	switch {
	case len(c.Warnings) < maxWarnings:
		c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
	case len(c.Warnings) == maxWarnings:
		c.Warnings = append(c.Warnings, "further warnings are left out")
	}
}

// warnAt warns about a node.
func (f *file) warnAt(n *yamlnode.Node, format string, args ...any) {
	line, column, _ := f.document.Position(n.Offset)
	f.warn("%s:%d:%d: %s", f.name, line, column, fmt.Sprintf(format, args...))
}

// place is the position of a descriptor in the tree, with the parts of its rule that follow from
// the path: Path, Keys and Varying.
type place struct {
	Rule
	shared []string // for each of Keys, the pattern if its values share histories, otherwise ""
}

// below returns the place of a descriptor under p.
func (p *place) below(d *descriptor) *place {
	name := d.key
	if d.value != "" {
		name += "_" + d.value
	}
	to := &place{Rule: Rule{Path: p.Path + "." + name, Varying: p.Varying}}
	shared := ""
	if d.shared {
		shared = name
	} else {
		level := len(p.Keys)
		to.Varying = append(slices.Clip(p.Varying), level)
	}
	to.Keys = append(slices.Clip(p.Keys), d.key)
	to.shared = append(slices.Clip(p.shared), shared)
	return to
}

// cost returns the memory of the descriptor's place below p, in bytes.
func (d *descriptor) cost(p *place) int {
	const (
		perLevel = 64 // bytes of a level above
		part     = 16 // bytes of a piece between two *
	)
	text := d.key + d.value
	levels := len(p.Keys) + 1
	return len(p.Path) + 2*len(text) + perLevel*levels + part*strings.Count(text, "*")
}

// descriptor holds the words of one descriptor, without its limit.
type descriptor struct {
	key, value            string
	shadow, quota, shared bool
}

// readDescriptors reads the list of descriptors of a mapping into the node above them.
func (f *file) readDescriptors(above *node, m members, p *place) {
	for each := range f.sequence(m, "descriptors").Items() {
		f.addDescriptor(above, each, p)
	}
}

// addDescriptor reads one descriptor and those below it.
func (f *file) addDescriptor(above *node, n *yamlnode.Node, p *place) {
	m := f.words(n, "a descriptor", descriptorWords)
	d := f.readDescriptor(n, m)
	f.countBytes(n, d.cost(p))
	here := p.below(d)
	to := &node{shared: d.shared, rule: f.readLimit(m, d, here)}
	name := Entry{Name: d.key, Value: d.value}
	if above.exact[name] != nil {
		f.fail(n, "give each key and value once on a level",
			"duplicate descriptor composite key '%s'", here.Path)
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
	f.readDescriptors(to, m, here)
}

// readDescriptor reads the words of a descriptor, except its limit.
func (f *file) readDescriptor(n *yamlnode.Node, m members) *descriptor {
	d := &descriptor{key: f.text(m, "key"), value: f.text(m, "value")}
	if d.key == "" {
		f.fail(n, "write key: NAME", "descriptor has empty key")
	}
	d.shadow = f.flag(m, "shadow_mode")
	d.quota = f.flag(m, "quota_mode")
	for _, word := range []string{"detailed_metric", "value_to_metric"} {
		if f.flag(m, word) {
			f.warnAt(m[word], "%s has no effect: metrics have no values of requests; "+
				"GET /v1/top has those that are denied most", word)
		}
	}
	d.shared = f.flag(m, "share_threshold")
	if d.shared && !strings.Contains(d.value, "*") {
		f.fail(m["share_threshold"],
			"give it a value such as files/*, or leave share_threshold out",
			"share_threshold can only be used with wildcard values (containing '*'), "+
				"and the value of %s is %q", d.key, d.value)
	}
	return d
}

// readLimit reads the rate_limit of a descriptor at a place; nil if it has none.
func (f *file) readLimit(m members, d *descriptor, p *place) *Rule {
	n := m["rate_limit"]
	if n == nil || n.Null() {
		return nil
	}
	words := f.words(n, "rate_limit", limitWords)
	r := new(p.Rule)
	r.Shadow = d.shadow
	r.Quota = d.quota
	r.History = HistoryName("rule", p.Keys, p.shared)
	r.Unlimited = f.flag(words, "unlimited")
	f.readPeriod(r, n, words)
	r.Name = f.text(words, "name")
	r.Replaces = f.readReplaces(words, r.Name)
	return r
}

// readPeriod reads the number of requests and the period.
func (f *file) readPeriod(r *Rule, at *yamlnode.Node, words members) {
	word := f.text(words, "unit")
	at = cmp.Or(words["unit"], at)
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
		multiplier = r.Multiplier
		at = n
	}
	var problem string
	if r.Window, problem = Period(r.Unit, multiplier); problem != "" {
		problem, next, _ := strings.Cut(problem, "; ")
		f.fail(at, cmp.Or(next, "use a smaller one"), "unit_multiplier: %s", problem)
	}
}

// readReplaces reads a list of names of other rules.
func (f *file) readReplaces(words members, own string) (names []string) {
	for each := range f.sequence(words, "replaces").Items() {
		name := f.text(f.words(each, "replaces", replaceWords), "name")
		switch name {
		case "":
			f.fail(each, "write the name of another descriptor",
				"should not have an empty replaces entry")
		case own:
			f.fail(each, "remove it", "replaces should not contain name of same descriptor")
		}
		names = append(names, name)
	}
	return names
}
