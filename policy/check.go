package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// checker turns the nodes of a file into policies and tests. Functions that read a part of the
// file panic with a *fault at its first problem, as those of text/template/parse do. try records
// the fault, and reading goes on behind the part, so that one run finds all faults.
type checker struct {
	wrongLines int // limit lines with other words than the grammar's, so far

	file   string
	doc    *yamlnode.Document
	faults []*fault

	names    []string        // all policies, in the order of the file
	rejected map[string]bool // the names of policies with a fault
}

// fault is a problem at an offset of the document, and the next step.
type fault struct {
	at            int
	problem, next string
	part          string // the misplaced part of a policy (partsOfPolicies), or ""
}

// These faults are not reported; they only end a reading. recorded ends that of a part with faults
// that were recorded before, and enough that of a file with more than maxErrors faults.
var recorded, enough = &fault{}, &fault{}

func faultf(at int, next, problem string, args ...any) *fault {
	return &fault{at: at, problem: fmt.Sprintf(problem, args...), next: next}
}

// fail panics with a fault.
func fail(at int, next, problem string, args ...any) {
	panic(faultf(at, next, problem, args...))
}

// catch returns the fault with which read panics, or nil.
func catch(read func()) (f *fault) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *fault:
			f = p
		default:
			panic(p)
		}
	}()
	read()
	return nil
}

// try reads parts of the file one after the other, and records the fault of each. It reports
// whether no part, and no smaller part inside, has a fault.
func (c *checker) try(parts ...func()) bool {
	before := len(c.faults)
	for _, read := range parts {
		if f := catch(read); f != nil {
			c.record(f)
		}
	}
	return len(c.faults) == before
}

// record adds a fault, and ends the reading after maxErrors.
func (c *checker) record(f *fault) {
	switch {
	case f == recorded:
	case f == enough || len(c.faults) == maxErrors:
		panic(enough)
	default:
		c.faults = append(c.faults, f)
	}
}

// errors returns the recorded faults in the order of the file. more reports whether there were
// more of them.
func (c *checker) errors(more bool) error {
	slices.SortStableFunc(c.faults, func(a, b *fault) int { return cmp.Compare(a.at, b.at) })
	if more {
		last := c.faults[len(c.faults)-1]
		last.next += fmt.Sprintf(" (the file has more than %d errors; "+
			"these are the first)", maxErrors)
	}
	var all []error
	for _, f := range c.faults {
		line, column, source := c.doc.Position(f.at)
		all = append(all, &Error{
			File:    c.file,
			Line:    line,
			Column:  column,
			Problem: f.problem,
			Next:    f.next,
			Source:  source,
		})
	}
	return errors.Join(all...)
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
	"interval": "write window: minute, or apart: 3s for the least time between two",
	"period":   "write window: minute",
	"by":       "write per: KEY",
	"key":      "write per: KEY",
	"keys":     "write per: [KEY, KEY]",
	"tz":       "write zone: Europe/Berlin",
	"timezone": "write zone: Europe/Berlin",
	"anchor":   "write from: 14th, or from: sunday",
	"ttl":      "write max_hold: 30s for the longest time that a unit is held",
}

// otherPolicyWords are those of policies.
var otherPolicyWords = map[string]string{
	"rate": "write limit: 10 per minute",
	"mode": "write denied: counted, batch: partial or shadow: true",
	"keys": "write each key in its limit, as in limit: 10 per minute per user",
	"key":  "write the key in the limit, as in limit: 10 per minute per user",
	"per":  "write the key in the limit, as in limit: 10 per minute per user",
	"max":  "write limit: 10 per minute, or limit: {max: 10, window: minute}",
}

// unknown returns the fault of a word that the table of its map does not have.
func unknown(key, value *yamlnode.Node, of string, words []string) *fault {
	next := "use " + strings.Join(words, ", ")
	var others map[string]string
	switch of {
	case aLimit:
		others = otherWords
	case aPolicy:
		others = otherPolicyWords
	}
	if other := others[key.Text]; other != "" {
		next = other
	} else if near := nearest.Name(key.Text, words); near != "" {
		next = fmt.Sprintf("did you mean %q? The words of %s are %s",
			near, of, strings.Join(words, ", "))
	} else if of == aFile && value.Kind == yamlnode.Map {
		next = "indent policies below policies:"
	}
	return faultf(key.Offset, next, "%s is not a word of %s", clip(key.Text), of)
}

// describeKind describes a node, as in "is a list".
func describeKind(n *yamlnode.Node) string {
	switch t := n.Type(); {
	case n.Kind != yamlnode.Scalar && n.Len() == 0:
		return "an empty " + t
	case t == "integer":
		return "a number"
	case t == "nothing":
		return "empty"
	case t == "text" || strings.HasPrefix(t, "!"):
		return t
	default:
		return "a " + t
	}
}

// want fails unless a node is of a kind. problem has a verb %s for the description of the node.
func want(kind yamlnode.Kind, n *yamlnode.Node, next, problem string) {
	if n.Kind != kind {
		fail(n.Offset, next, problem, describeKind(n))
	}
}

// wantFilled is want that also fails if the node is empty.
func wantFilled(kind yamlnode.Kind, n *yamlnode.Node, next, problem string) {
	if n.Kind != kind || n.Len() == 0 {
		fail(n.Offset, next, problem, describeKind(n))
	}
}

// checkName fails unless a word can be the name of a part of the file.
func checkName(at int, word, part string) {
	if weir.ValidName(word) {
		return
	}
	if meant := respellName(word); weir.ValidName(meant) {
		fail(at, "write "+meant, "%s cannot be the name of %s: names have small letters, "+
			"digits and . _ -", clip(word), part)
	}
	fail(at, useName, "%s cannot be the name of %s", clip(word), part)
}

// quote quotes a scalar, and describes other nodes.
func quote(n *yamlnode.Node) string {
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
	if root.Null() {
		fail(root.Offset, write, "the file is empty")
	}
	want(yamlnode.Map, root, write, "the file is %s, not a map")
	f := &File{Name: c.file}
	apply(c, fileWords, aFile, root, f)
	for _, word := range []string{"version", "policies"} {
		// An unknown word is probably the missing one.
		if !has(root, word) && allKnown(fileWords, root) {
			c.record(faultf(root.Offset, write, "%s: is missing", word))
		}
	}
	if _, tests := find(root, "tests"); tests != nil {
		c.setTests(f, tests)
	}
	return f
}

// find returns a word of a map with its value, or nil.
func find(m *yamlnode.Node, word string) (key, value *yamlnode.Node) {
	for key, value := range m.Pairs() {
		if key.Text == word {
			return key, value
		}
	}
	return nil, nil
}

func has(m *yamlnode.Node, word string) bool {
	key, _ := find(m, word)
	return key != nil
}

func setVersion(_ *checker, _ *File, _, value *yamlnode.Node) {
	if value.Quoted() && value.Text == "1" {
		fail(value.Offset, "remove the quotes",
			"the version is the text %s, not the number 1", quote(value))
	}
	if value.Type() != "integer" || value.Text != "1" {
		fail(value.Offset, "write version: 1",
			"the version is not the number 1, the only one there is")
	}
}

func (c *checker) setPolicies(f *File, key, value *yamlnode.Node) {
	if value.Kind == yamlnode.List {
		fail(value.Offset,
			"write NAME: on a line of its own, without a dash, and its words indented below it",
			"policies: is a list, not a map of names to policies")
	}
	if value.Kind != yamlnode.Map || value.Len() == 0 {
		at := value.Offset
		if value.Null() {
			at = key.Offset
		}
		fail(at, "write the name of a policy and, indented below it, limit: 10 per minute",
			"there are no policies")
	}
	c.rejected = map[string]bool{}
	f.Policies = make([]*Definition, 0, value.Len())
	for name, words := range value.Pairs() {
		c.names = append(c.names, name.Text)
		ok := c.try(func() { f.Policies = append(f.Policies, c.policy(name, words)) })
		c.rejected[name.Text] = !ok
	}
}

// nextName suggests the nearest of the first 100 names, and lists some after theyAre. More
// names would let a hostile file take long.
func nextName(name string, names []string, theyAre string) string {
	if near := nearest.Name(name, names[:min(len(names), 100)]); near != "" {
		return fmt.Sprintf("did you mean %q? %s%s%s",
			near, strings.ToUpper(theyAre[:1]), theyAre[1:], listed(names))
	}
	return theyAre + listed(names)
}
