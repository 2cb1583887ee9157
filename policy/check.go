package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// checker turns the nodes of a file into policies and tests. Its methods report whether
// they succeeded. A method that fails has recorded a fault, and its caller goes on with
// the next word, policy or test, so that one run finds all faults.
type checker struct {
	file   string
	doc    *yamlnode.Document
	faults []fault
	more   bool // there were more than maxErrors faults

	names    []string        // of all policies, in the order of the file
	rejected map[string]bool // the names of policies with a fault
}

// fault is a problem at a byte offset, and the next step.
type fault struct {
	at            int
	problem, next string

	later func() string // returns the next step, if finding it takes long; otherwise nil
}

func faultf(at int, next, problem string, args ...any) *fault {
	return &fault{at: at, problem: fmt.Sprintf(problem, args...), next: next}
}

// resolve sets the next step.
func (f *fault) resolve() {
	if f.later != nil {
		f.next, f.later = f.later(), nil
	}
}

// fail records a fault at an offset of the document and returns false.
func (c *checker) fail(offset int, next, problem string, args ...any) bool {
	return c.accept(faultf(offset, next, problem, args...))
}

// accept reports whether f is nil, and records it otherwise.
func (c *checker) accept(f *fault) bool {
	if f == nil {
		return true
	}
	if !c.full() {
		f.resolve()
		c.faults = append(c.faults, *f)
	}
	return false
}

// full reports whether the faults fill an Errors, and notes that there is one more.
func (c *checker) full() bool {
	c.more = len(c.faults) == maxErrors
	return c.more
}

// errors returns the recorded faults in the order of the file.
func (c *checker) errors() Errors {
	slices.SortStableFunc(c.faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	var all Errors
	for _, f := range c.faults {
		line, column, source := c.doc.Position(f.at)
		all = append(all, &Error{File: c.file, Line: line, Column: column, Problem: f.problem, Next: f.next, Source: source})
	}
	if c.more {
		last := all[len(all)-1]
		last.Next += fmt.Sprintf(" (the file has more than %d errors; these are the first)", maxErrors)
	}
	return all
}

// The names of the maps of words, for messages.
const (
	aFile      = "a policy file"
	aPolicy    = "a policy"
	aLimit     = "a limit"
	anOverride = "an override"
	aTest      = "a test"
	aStep      = "a step"
)

// otherWords are words of other rate limiters, with the way to write them here.
var otherWords = map[string]string{
	"capacity": "write burst: 20",
	"rate":     "write limit: 10 per minute",
	"count":    "write max: 10",
	"interval": "write window: minute",
	"period":   "write window: minute",
	"by":       "write per: KEY",
	"key":      "write per: KEY",
	"keys":     "write per: [KEY, KEY]",
	"tz":       "write zone: Europe/Berlin",
	"timezone": "write zone: Europe/Berlin",
	"anchor":   "write from: 14th, or from: sunday",
	"ttl":      "write max_hold: 30s for the longest time that a unit is held",
}

// unknown records a word that the table of its map does not have.
func (c *checker) unknown(key, value *yamlnode.Node, of string, words []string) bool {
	if c.full() {
		return false
	}
	next := "use " + strings.Join(words, ", ")
	if other := otherWords[key.Text]; other != "" && of == aLimit {
		next = other
	} else if near := nearest.Name(key.Text, words); near != "" {
		next = fmt.Sprintf("did you mean %q? The words of %s are %s", near, of, strings.Join(words, ", "))
	} else if of == aFile && value.Kind == yamlnode.Map {
		next = "indent policies below policies:"
	}
	return c.fail(key.Offset, next, "%s is not a word of %s", clip(key.Text), of)
}

// describeKind describes a node, as in "is a list".
func describeKind(n *yamlnode.Node) string {
	switch t := n.Type(); t {
	case "map", "list":
		if n.Len() == 0 {
			return "an empty " + t
		}
		return "a " + t
	case "number", "boolean", "date", "merge key":
		return "a " + t
	case "integer":
		return "a number"
	case "nothing":
		return "empty"
	default:
		return t
	}
}

// quote quotes a scalar, and describes other nodes.
func (c *checker) quote(n *yamlnode.Node) string {
	if n.Kind != yamlnode.Scalar {
		return describeKind(n)
	}
	if n.Text == "" {
		return "nothing"
	}
	return clip(n.Text)
}

// policyFile reads the whole file.
func (c *checker) policyFile(root *yamlnode.Node) *File {
	const write = "write version: 1, and policies: with the policies below it"
	f := &fileBuilder{File: &File{Name: c.file}}
	if root.Type() == "nothing" {
		c.fail(root.Offset, write, "the file is empty")
		return f.File
	}
	if root.Kind != yamlnode.Map {
		c.fail(root.Offset, write, "the file is %s, not a map", describeKind(root))
		return f.File
	}
	apply(c, fileWords, aFile, root, f)
	for _, word := range []string{"version", "policies"} {
		if !has(root, word) && allKnown(fileWords, root) { // an unknown word is probably the missing one
			c.fail(root.Offset, write, "%s: is missing", word)
		}
	}
	c.readTests(f)
	return f.File
}

// fileBuilder is a file while the checker reads it.
type fileBuilder struct {
	*File
	tests pair // read after the policies
}

func has(m *yamlnode.Node, word string) bool {
	for key := range m.Pairs() {
		if key.Text == word {
			return true
		}
	}
	return false
}

func (c *checker) setVersion(_ *fileBuilder, _, value *yamlnode.Node) bool {
	if value.Type() != "integer" || value.Text != "1" {
		return c.fail(value.Offset, "write version: 1", "the version is not the number 1, the only one there is")
	}
	return true
}

func (c *checker) setPolicies(f *fileBuilder, key, value *yamlnode.Node) bool {
	if value.Kind == yamlnode.List {
		return c.fail(value.Offset, "write NAME: on a line of its own, without a dash, and its words indented below it", "policies: is a list, not a map of names to policies")
	}
	if value.Kind != yamlnode.Map || value.Len() == 0 {
		at := value.Offset
		if value.Type() == "nothing" {
			at = key.Offset
		}
		return c.fail(at, "write the name of a policy and, indented below it, limit: 10 per minute", "there are no policies")
	}
	c.rejected = map[string]bool{}
	f.Policies = make([]*Definition, 0, value.Len())
	for name, words := range value.Pairs() {
		c.names = append(c.names, name.Text)
		p, ok := c.policy(name, words)
		if !ok {
			c.rejected[name.Text] = true
			continue
		}
		f.Policies = append(f.Policies, p)
	}
	return c.checkDerivedNames(f.File, value)
}

// nextName suggests the nearest of the first 100 names, and lists some after theyAre.
// More names, or a list for each of many faults, would let a hostile file take long.
func (c *checker) nextName(name string, names []string, theyAre string) string {
	if c.full() {
		return ""
	}
	if near := nearest.Name(name, names[:min(len(names), 100)]); near != "" {
		return fmt.Sprintf("did you mean %q? %s%s%s", near, strings.ToUpper(theyAre[:1]), theyAre[1:], listed(names))
	}
	return theyAre + listed(names)
}
