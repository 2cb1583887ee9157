package envoyconf

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// builder builds a Config from files.
type builder struct {
	options Options
	config  *Config
	size    size
}

func newBuilder(source string, o Options) *builder {
	return &builder{options: o, config: &Config{Source: source, byName: map[string]*Domain{}}}
}

// file is the state of reading one file into the Config.
type file struct {
	reader
	b      *builder
	domain *Domain
}

// add reads a file into the Config. After an error the Config is unusable.
func (b *builder) add(name string, src []byte) error {
	f := &file{reader: reader{file: name, size: &b.size}, b: b}
	root, err := f.document(src)
	if err != nil {
		return err
	}
	b.config.Files++
	return f.root(root)
}

// Words of each mapping. A word of another mapping has no effect and causes a warning.
var (
	rootWords       = []string{"domain", "descriptors"}
	descriptorWords = []string{"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata"}
	limitWords   = []string{"unit", "requests_per_unit", "unit_multiplier", "unlimited", "name", "replaces"}
	replaceWords = []string{"name"}
)

// root reads the file's mapping.
func (f *file) root(n *yaml.Node) error {
	members, err := f.words(n, "the file", rootWords, 0)
	if err != nil {
		return err
	}
	if err := f.open(n, members.at("domain")); err != nil {
		return err
	}
	return f.descriptors(&f.domain.root, members.at("descriptors"), &place{path: f.domain.Name}, 1)
}

// open sets the domain of the file: a new one, or one of an earlier file.
func (f *file) open(root, n *yaml.Node) error {
	if n == nil {
		n = root
	}
	name := ""
	if n != root {
		var err error
		if name, err = f.text(n, "domain"); err != nil {
			return err
		}
	}
	if name == "" {
		return f.fail(n, "write domain: NAME", "config file cannot have empty domain")
	}
	c := f.b.config
	f.domain = c.byName[name]
	switch {
	case f.domain == nil:
		f.domain = &Domain{Name: name, Policy: PolicyName(name)}
		c.byName[name] = f.domain
		c.Domains = append(c.Domains, f.domain)
	case !f.b.options.MergeDomains:
		return f.fail(n, "write it into one file, or allow several files for a domain with --envoy-merge-domains", "duplicate domain '%s' in config file", name)
	}
	return nil
}

// members are the members of a mapping.
type members []member

// at returns the value of the key, or nil.
func (m members) at(key string) *yaml.Node {
	for i := range m {
		if m[i].key == key {
			return m[i].n
		}
	}
	return nil
}

// words returns the members of a mapping that have one of the given keys. Words of other
// mappings are a warning, since the reference ignores them. All other keys are an error.
func (f *file) words(n *yaml.Node, what string, words []string, depth int) (members, error) {
	all, err := f.mapping(n, what, depth)
	if err != nil {
		return nil, err
	}
	var known members
	for _, m := range all {
		switch {
		case slices.Contains(words, m.key):
			known = append(known, m)
		case slices.Contains(rootWords, m.key), slices.Contains(descriptorWords, m.key), slices.Contains(limitWords, m.key):
			f.warn(m.keyNode, "%s has no effect here, in %s; it takes %s", m.key, what, strings.Join(words, ", "))
		default:
			return nil, f.fail(m.keyNode, "it takes "+strings.Join(words, ", "), "config error, unknown key '%s' in %s", m.key, what)
		}
	}
	return known, nil
}

// maxWarnings bounds the warnings of a configuration.
const maxWarnings = 100

func (f *file) warn(n *yaml.Node, format string, args ...any) {
	c := f.b.config
	if len(c.Warnings) > maxWarnings {
		return
	}
	warning := f.fail(n, "", format, args...).Error()
	if len(c.Warnings) == maxWarnings {
		warning = "further warnings are left out"
	}
	c.Warnings = append(c.Warnings, warning)
}
