package envoyconf

import (
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
		case *policy.Error: // of fail, which ends the file at its first error
			err = e
		default:
			panic(e)
		}
	}()
	root := f.read(src)
	c.Files++
	m := f.words(root, "the file", rootWords)
	f.open(root, m)
	f.descriptors(&f.domain.root, m, &place{path: f.domain.Name})
	return nil
}

// Words of each mapping. A word of another mapping has no effect and causes a warning.
var (
	rootWords       = []string{"domain", "descriptors"}
	descriptorWords = []string{"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata"}
	limitWords   = []string{"unit", "requests_per_unit", "unit_multiplier", "unlimited", "name", "replaces"}
	replaceWords = []string{"name"}
)

// open sets the domain of the file, which no earlier file has.
func (f *file) open(at *yamlnode.Node, m members) {
	if n := m["domain"]; n != nil {
		at = n
	}
	name := f.text(m, "domain")
	if name == "" {
		f.fail(at, "write domain: NAME", "config file cannot have empty domain")
	}
	if f.byName[name] != nil {
		f.fail(at, "write it into one file", "duplicate domain '%s' in config file", name)
	}
	f.domain = &Domain{Name: name, Policy: PolicyName(name)}
	f.byName[name] = f.domain
	f.Domains = append(f.Domains, f.domain)
}

// members are the values of a mapping by their keys.
type members map[string]*yamlnode.Node

// words returns the members of a mapping that have one of the given keys. Words of other
// mappings are a warning, since the reference ignores them. All other keys are an error.
func (f *file) words(n *yamlnode.Node, mapping string, words []string) members {
	known := members{}
	for _, m := range f.mapping(n, mapping) {
		switch {
		case slices.Contains(words, m.key.Text):
			known[m.key.Text] = m.value
		case slices.Contains(rootWords, m.key.Text), slices.Contains(descriptorWords, m.key.Text), slices.Contains(limitWords, m.key.Text):
			f.warn(m.key, "%s has no effect here, in %s; it takes %s", m.key.Text, mapping, strings.Join(words, ", "))
		default:
			f.fail(m.key, "it takes "+strings.Join(words, ", "), "config error, unknown key '%s' in %s", m.key.Text, mapping)
		}
	}
	return known
}

// maxWarnings bounds the warnings of a configuration.
const maxWarnings = 100

func (f *file) warn(n *yamlnode.Node, format string, args ...any) {
	switch {
	case len(f.Warnings) < maxWarnings:
		line, column, _ := f.document.Position(n.Offset)
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s:%d:%d: ", f.name, line, column)+fmt.Sprintf(format, args...))
	case len(f.Warnings) == maxWarnings:
		f.Warnings = append(f.Warnings, "further warnings are left out")
	}
}
