package envoyconf

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

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

// size counts the nodes and bytes that all files of a configuration have taken so far.
type size struct{ nodes, bytes int }

// reader reads the nodes of one file.
type reader struct {
	file string
	size *size
}

// document returns the only document of the file.
func (r *reader) document(src []byte) (*yaml.Node, error) {
	if marks(src) > maxNodes {
		return nil, &Error{File: r.file, Problem: fmt.Sprintf("the file has more than %d nodes", maxNodes), Next: "remove rules"}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(src)))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &Error{File: r.file, Problem: "the file is empty", Next: "begin with domain: NAME"}
		}
		return nil, r.malformed(err)
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		return nil, r.fail(&more, "put each domain into a file of its own", "a second document")
	case !errors.Is(err, io.EOF):
		return nil, r.malformed(err)
	}
	if len(doc.Content) != 1 {
		return nil, &Error{File: r.file, Problem: "the file has no content", Next: "begin with domain: NAME"}
	}
	return doc.Content[0], nil
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
func (r *reader) malformed(err error) error {
	e := &Error{File: r.file, Problem: "malformed YAML: " + err.Error(), cause: err}
	if m := yamlPlace.FindStringSubmatch(err.Error()); m != nil {
		e.Problem = "malformed YAML: " + err.Error()[len(m[0]):]
		if line, err := strconv.Atoi(m[1]); err == nil {
			e.Line, e.Column = line, 1
		}
	}
	return e
}

// fail returns an Error at a node.
func (r *reader) fail(n *yaml.Node, next, format string, args ...any) error {
	return &Error{File: r.file, Line: n.Line, Column: n.Column, Problem: fmt.Sprintf(format, args...), Next: next}
}

// target returns the node that an alias refers to, and counts it.
func (r *reader) target(n *yaml.Node) (*yaml.Node, error) {
	if r.size.nodes++; r.size.nodes > maxNodes {
		return nil, r.fail(n, "remove aliases or rules", "the configuration has more than %d nodes once its aliases are followed", maxNodes)
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, nil
}

// take counts bytes of the configuration.
func (r *reader) take(n *yaml.Node, bytes int) error {
	if r.size.bytes += bytes; r.size.bytes > maxBytes {
		return r.fail(n, "shorten names, or remove aliases or rules",
			"the names and values of the configuration take more than %d MiB once its aliases are followed", maxBytes>>20)
	}
	return nil
}

// countAll counts all nodes below n, with their text.
func (r *reader) countAll(n *yaml.Node, depth int) error {
	n, err := r.target(n)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return r.fail(n, "", "nested more than %d deep", maxDepth)
	}
	if err := r.take(n, len(n.Value)); err != nil {
		return err
	}
	for _, each := range n.Content {
		if err := r.countAll(each, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// member is a key of a mapping with its value.
type member struct {
	key        string
	keyNode, n *yaml.Node
}

// mapping returns the members of a mapping in their order, with members merged by <<
// behind its own. what names the mapping in error messages.
func (r *reader) mapping(n *yaml.Node, what string, depth int) ([]member, error) {
	n, err := r.target(n)
	if err != nil {
		return nil, err
	}
	if n.Kind != yaml.MappingNode {
		return nil, r.fail(n, "", "%s must be a mapping of keys to values, not %s", what, kindOf(n))
	}
	if depth > maxDepth {
		return nil, r.fail(n, "", "nested more than %d deep", maxDepth)
	}
	var own, merged []member
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, err := r.target(n.Content[i])
		if err != nil {
			return nil, err
		}
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			more, err := r.merged(n.Content[i+1], what, depth+1)
			if err != nil {
				return nil, err
			}
			merged = append(merged, more...)
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			return nil, r.fail(n.Content[i], "", "config error, key is not of type string: %s", kindOf(key))
		}
		if seen[key.Value] {
			return nil, r.fail(n.Content[i], "give it once", "%q is given twice", key.Value)
		}
		seen[key.Value] = true
		own = append(own, member{key.Value, n.Content[i], n.Content[i+1]})
	}
	for _, m := range merged {
		if !seen[m.key] {
			seen[m.key] = true
			own = append(own, m)
		}
	}
	return own, nil
}

// merged returns the members of the value of a <<: a mapping, or a list of mappings, of
// which earlier ones take precedence.
func (r *reader) merged(n *yaml.Node, what string, depth int) ([]member, error) {
	n, err := r.target(n)
	if err != nil {
		return nil, err
	}
	if n.Kind != yaml.SequenceNode {
		return r.mapping(n, what, depth)
	}
	var all []member
	for _, each := range n.Content {
		more, err := r.mapping(each, what, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// sequence returns the elements of a list; null has none.
func (r *reader) sequence(n *yaml.Node, what string) ([]*yaml.Node, error) {
	n, err := r.target(n)
	if err != nil {
		return nil, err
	}
	switch {
	case isNull(n):
		return nil, nil
	case n.Kind != yaml.SequenceNode:
		return nil, r.fail(n, "begin each with a dash", "%s must be a list, not %s", what, kindOf(n))
	}
	return n.Content, nil
}

// text returns a scalar as it is written; null is "".
func (r *reader) text(n *yaml.Node, what string) (string, error) {
	n, err := r.target(n)
	if err != nil {
		return "", err
	}
	if n.Kind == yaml.ScalarNode {
		if len(n.Value) > maxText {
			return "", r.fail(n, "shorten it", "%s has %d bytes, and at most %d are allowed", what, len(n.Value), maxText)
		}
		switch n.ShortTag() {
		case "!!null":
			return "", nil
		case "!!str", "!!int", "!!bool", "!!timestamp":
			return n.Value, nil
		case "!!float":
			return "", r.fail(n, "put it in quotes", "%s is the number %s, which has more than one spelling", what, n.Value)
		}
	}
	return "", r.fail(n, "", "%s must be text, not %s", what, kindOf(n))
}

// flag returns a boolean; null is false.
func (r *reader) flag(n *yaml.Node, what string) (b bool, err error) {
	if n, err = r.target(n); err != nil {
		return false, err
	}
	if n.Kind != yaml.ScalarNode || n.Decode(&b) != nil {
		return false, r.fail(n, "", "%s must be true or false, not %s", what, kindOf(n))
	}
	return b, nil
}

// number returns a whole number, 0 … 2^32−1.
func (r *reader) number(n *yaml.Node, what string) (v uint32, err error) {
	if n, err = r.target(n); err != nil {
		return 0, err
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil {
		return 0, r.fail(n, "", "%s must be a whole number, 0 to 4294967295, not %s", what, kindOf(n))
	}
	return v, nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindOf returns the kind of a node for error messages; of a short scalar, its text.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if isNull(n) {
			return "null"
		}
		if len(n.Value) > 64 {
			return strconv.Quote(n.Value[:64]) + "…"
		}
		return strconv.Quote(n.Value)
	}
	return "nothing"
}
