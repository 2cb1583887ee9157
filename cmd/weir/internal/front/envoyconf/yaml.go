package envoyconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/policyfile"
	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/internal/yamlnode"
	"github.com/weirlimit/weir/policy"
)

const (
	// maxText bounds one name or value, in bytes.
	maxText = 4 << 10
	// maxBytes bounds the names and values of a configuration, in bytes. Aliases and the
	// paths of nested descriptors count in full, so a short file can have many.
	maxBytes = 64 << 20
	// nodeBytes are those of a node without text.
	nodeBytes = 64
)

// read returns the root of the file's only document.
func (f *file) read(src []byte) *yamlnode.Node {
	if len(src) > policyfile.MaxBytes {
		panic(&policy.Error{
			File:    f.name,
			Problem: fmt.Sprintf("the file is larger than %d KiB", policyfile.MaxBytes>>10),
			Next:    "split it by domain",
		})
	}
	document, err := yamlnode.ReadAll(src)
	f.document = document
	if err != nil {
		panic(f.errorAt(err.Offset, err.Next, "%s", err.Problem))
	}
	if root := &document.Root; !root.Null() {
		return root
	}
	f.fail(&document.Root, "begin with domain: NAME", "the file is empty")
	return nil
}

// errorAt returns an error at an offset of the file.
func (f *file) errorAt(offset int, next, format string, args ...any) *policy.Error {
	line, column, source := f.document.Position(offset)
	return &policy.Error{
		File:    f.name,
		Line:    line,
		Column:  column,
		Problem: fmt.Sprintf(format, args...),
		Next:    next,
		Source:  source,
	}
}

// fail ends the reading of the file: it panics with an error at a node, which add returns.
func (f *file) fail(n *yamlnode.Node, next, format string, args ...any) {
	panic(f.errorAt(n.Offset, next, format, args...))
}

// countBytes counts bytes of the configuration.
func (f *file) countBytes(n *yamlnode.Node, bytes int) {
	if f.bytes += bytes; f.bytes > maxBytes {
		f.fail(n, "shorten names, or remove aliases or rules",
			"the names and values of the configuration take more than %d MiB once its aliases "+
				"are followed", maxBytes>>20)
	}
}

// addMembers adds the members of a mapping that all does not have, then those of the mappings
// merged by <<. name is for error messages. The value of a << is a mapping, or a list of
// mappings, of which earlier ones take precedence. check checks each key that is added.
func (f *file) addMembers(all members, n *yamlnode.Node, name string, check func(key *yamlnode.Node)) {
	f.countBytes(n, nodeBytes)
	if n.Kind != yamlnode.Map {
		f.fail(n, "write key: value", "%s must be a mapping of keys to values, not %s", name,
			kindOf(n))
	}
	var merged []*yamlnode.Node
	for key, value := range n.Pairs() {
		f.countBytes(key, nodeBytes)
		switch t := key.Type(); {
		case t == "merge key" && value.Kind == yamlnode.List:
			merged = slices.AppendSeq(merged, value.Items())
		case t == "merge key":
			merged = append(merged, value)
		case t != "text":
			f.fail(key, "put it in quotes", "config error, key is not of type string: %s",
				kindOf(key))
		case all[key.Text] == nil:
			check(key)
			all[key.Text] = value
		}
	}
	for _, each := range merged {
		f.addMembers(all, each, name, check)
	}
}

// The functions below return the value of a key, or a zero value if the key is missing or
// its value is null.

// sequence returns the list of a key.
func (f *file) sequence(m members, key string) *yamlnode.Node {
	n := m[key]
	if n == nil {
		return &yamlnode.Node{}
	}
	f.countBytes(n, nodeBytes)
	if n.Kind != yamlnode.List && !n.Null() {
		f.fail(n, "begin each with a dash", "%s must be a list, not %s", key, kindOf(n))
	}
	return n
}

// text returns a scalar as it is written.
func (f *file) text(m members, key string) string {
	n := m[key]
	if n == nil {
		return ""
	}
	f.countBytes(n, nodeBytes)
	if len(n.Text) > maxText {
		f.fail(n, "shorten it", "%s has %d bytes, and at most %d are allowed", key, len(n.Text),
			maxText)
	}
	switch n.Type() {
	case "nothing":
		return ""
	case "text", "integer", "boolean", "date":
		return n.Text
	case "number":
		f.fail(n, "put it in quotes", "%s is the number %s, which has more than one spelling", key,
			n.Text)
	}
	f.fail(n, "write it in quotes", "%s must be text, not %s", key, kindOf(n))
	return ""
}

// The words of YAML 1.1 for booleans that the reference reads.
var (
	trueWords  = []string{"true", "True", "TRUE", "y", "Y", "yes", "on"}
	falseWords = []string{"false", "False", "FALSE", "n", "N", "no", "off"}
)

// flag returns a boolean, also as the words of YAML 1.1.
func (f *file) flag(m members, key string) bool {
	n := m[key]
	if n == nil || n.Null() {
		return false
	}
	isTrue := slices.Contains(trueWords, n.Text) // a mapping and a list have no text
	if !isTrue && !slices.Contains(falseWords, n.Text) {
		f.fail(n, "write true, or leave it out", "%s must be true or false, not %s", key, kindOf(n))
	}
	f.failQuoted(n, key, "true or false")
	return isTrue
}

// number returns the value of a key that is not missing: a whole number, 0 … 2^32−1.
func (f *file) number(m members, key string) uint32 {
	const want = "a whole number, 0 to 4294967295"
	n := m[key]
	v, err := strconv.ParseUint(strings.ReplaceAll(n.Text, "_", ""), 0, 32)
	if err == nil {
		f.failQuoted(n, key, want)
	}
	if n.Type() != "integer" || err != nil {
		f.fail(n, "write one such as 100", "%s must be %s, not %s", key, want, kindOf(n))
	}
	return uint32(v)
}

// failQuoted fails if the value of a key is in quotes. The reference does not read such text as a
// number or a boolean.
func (f *file) failQuoted(n *yamlnode.Node, key, want string) {
	if n.Quoted() {
		f.fail(n, "remove the quotes", "%s must be %s, not the text %s", key, want,
			shorten.Quoted(n.Text))
	}
}

// kindOf returns the kind of a node for error messages; of a scalar, its text.
func kindOf(n *yamlnode.Node) string {
	switch {
	case n.Kind == yamlnode.Map:
		return "a mapping"
	case n.Kind == yamlnode.List:
		return "a list"
	case n.Null():
		return "null"
	}
	return shorten.Quoted(n.Text)
}
