package envoyconf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth bounds the depth of nested descriptors and values.
	maxDepth = 100
	// maxNodes bounds the nodes of a configuration. Each alias counts as all nodes that it
	// stands for, so a short file can have many.
	maxNodes = 1_000_000
	// maxText bounds one name or value, in bytes.
	maxText = 4 << 10
	// maxBytes bounds the names and values of a configuration, in bytes. Aliases and the
	// paths of nested descriptors count in full.
	maxBytes = 64 << 20
)

// document returns the only document of the file.
func (f *file) document(src []byte) *yaml.Node {
	if marks(src) > maxNodes {
		panic(&Error{File: f.name, Problem: fmt.Sprintf("the file has more than %d nodes", maxNodes), Next: "remove rules"})
	}
	decoder := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		panic(&Error{File: f.name, Problem: "the file is empty", Next: "begin with domain: NAME"})
	case err != nil:
		panic(f.malformed(err))
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		f.fail(&more, "put each domain into a file of its own", "a second document")
	case !errors.Is(err, io.EOF):
		panic(f.malformed(err))
	}
	if len(doc.Content) != 1 {
		panic(&Error{File: f.name, Problem: "the file has no content", Next: "begin with domain: NAME"})
	}
	return doc.Content[0]
}

// marks counts the characters that begin or end nodes, which are at least as many as the
// nodes. The YAML library allocates some hundred bytes for each node.
func marks(src []byte) (n int) {
	for _, c := range src {
		switch c {
		case '\n', ',', ':', '-', '?', '[', '{':
			n++
		}
	}
	return n
}

var yamlPlace = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// malformed converts an error of the YAML library to an Error with the line that it
// names.
func (f *file) malformed(err error) *Error {
	text := err.Error()
	e := &Error{File: f.name, Problem: "malformed YAML: " + yamlPlace.ReplaceAllString(text, ""), cause: err}
	if m := yamlPlace.FindStringSubmatch(text); m != nil {
		if e.Line, _ = strconv.Atoi(m[1]); e.Line > 0 {
			e.Column = 1
		}
	}
	return e
}

// errorAt returns an Error at a node.
func (f *file) errorAt(n *yaml.Node, next, format string, args ...any) *Error {
	return &Error{File: f.name, Line: n.Line, Column: n.Column, Problem: fmt.Sprintf(format, args...), Next: next}
}

// fail ends the reading of the file: it panics with an Error at a node, which add returns.
func (f *file) fail(n *yaml.Node, next, format string, args ...any) {
	panic(f.errorAt(n, next, format, args...))
}

// target returns the node that an alias refers to, and counts it.
func (f *file) target(n *yaml.Node) *yaml.Node {
	if f.nodes++; f.nodes > maxNodes {
		f.fail(n, "remove aliases or rules", "the configuration has more than %d nodes once its aliases are followed", maxNodes)
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// take counts bytes of the configuration.
func (f *file) take(n *yaml.Node, bytes int) {
	if f.bytes += bytes; f.bytes > maxBytes {
		f.fail(n, "shorten names, or remove aliases or rules",
			"the names and values of the configuration take more than %d MiB once its aliases are followed", maxBytes>>20)
	}
}

// checkDepth bounds the depth of a node.
func (f *file) checkDepth(n *yaml.Node, depth int) {
	if depth > maxDepth {
		f.fail(n, "", "nested more than %d deep", maxDepth)
	}
}

// member is a key of a mapping, its place and its value.
type member struct {
	key       string
	at, value *yaml.Node
}

// mapping returns the members of a mapping in their order, with members merged by <<
// behind its own. name is for error messages. The value of a << is a mapping, or a list
// of mappings, of which earlier ones take precedence.
func (f *file) mapping(n *yaml.Node, name string, depth int) []member {
	n = f.target(n)
	if n.Kind != yaml.MappingNode {
		f.fail(n, "", "%s must be a mapping of keys to values, not %s", name, kindOf(n))
	}
	f.checkDepth(n, depth)
	var own, merged []member
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, value := n.Content[i], n.Content[i+1]
		key := f.target(at)
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			parts := []*yaml.Node{value}
			if list := f.target(value); list.Kind == yaml.SequenceNode {
				parts = list.Content
			}
			for _, part := range parts {
				merged = append(merged, f.mapping(part, name, depth+1)...)
			}
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			f.fail(at, "", "config error, key is not of type string: %s", kindOf(key))
		}
		if seen[key.Value] {
			f.fail(at, "give it once", "%q is given twice", key.Value)
		}
		seen[key.Value] = true
		own = append(own, member{key.Value, at, value})
	}
	for _, m := range merged {
		if !seen[m.key] {
			seen[m.key] = true
			own = append(own, m)
		}
	}
	return own
}

// The functions below return the value of a key, or a zero value if the key is missing or
// its value is null.

// sequence returns the elements of a list.
func (f *file) sequence(m members, key string) []*yaml.Node {
	n := m[key]
	if n == nil {
		return nil
	}
	n = f.target(n)
	if n.Kind != yaml.SequenceNode && !isNull(n) {
		f.fail(n, "begin each with a dash", "%s must be a list, not %s", key, kindOf(n))
	}
	return n.Content
}

// text returns a scalar as it is written.
func (f *file) text(m members, key string) string {
	n := m[key]
	if n == nil {
		return ""
	}
	n = f.target(n)
	if n.Kind == yaml.ScalarNode {
		if len(n.Value) > maxText {
			f.fail(n, "shorten it", "%s has %d bytes, and at most %d are allowed", key, len(n.Value), maxText)
		}
		switch n.ShortTag() {
		case "!!null":
			return ""
		case "!!str", "!!int", "!!bool", "!!timestamp":
			return n.Value
		case "!!float":
			f.fail(n, "put it in quotes", "%s is the number %s, which has more than one spelling", key, n.Value)
		}
	}
	f.fail(n, "", "%s must be text, not %s", key, kindOf(n))
	return ""
}

// flag returns a boolean.
func (f *file) flag(m members, key string) (b bool) {
	if n := m[key]; n != nil {
		if n = f.target(n); n.Kind != yaml.ScalarNode || n.Decode(&b) != nil {
			f.fail(n, "", "%s must be true or false, not %s", key, kindOf(n))
		}
	}
	return b
}

// number returns a whole number, 0 … 2^32−1, which must not be null.
func (f *file) number(m members, key string) (v uint32) {
	if n := m[key]; n != nil {
		if n = f.target(n); n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil {
			f.fail(n, "", "%s must be a whole number, 0 to 4294967295, not %s", key, kindOf(n))
		}
	}
	return v
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindOf returns the kind of a node for error messages; of a short scalar, its text.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind != yaml.ScalarNode:
		return "nothing"
	case isNull(n):
		return "null"
	case len(n.Value) > 64:
		return strconv.Quote(n.Value[:64]) + "…"
	}
	return strconv.Quote(n.Value)
}
