package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

// checker turns the tree of a file into policies. It stops at the first fault.
type checker struct {
	file string
	doc  *strictyaml.Document

	tests *strictyaml.Node // read once the policies are known
}

// fail returns the error at an offset of the document.
func (c *checker) fail(offset int, next, problem string, args ...any) error {
	line, column, source := c.doc.Position(offset)
	return &Error{File: c.file, Line: line, Column: column, Problem: fmt.Sprintf(problem, args...), Next: next, Source: printable(source)}
}

func (c *checker) fault(f *fault) error {
	if f == nil {
		return nil
	}
	return c.fail(f.at, f.next, "%s", f.problem)
}

// unknown refuses a word that no table has.
func (c *checker) unknown(key, value *strictyaml.Node, of string, words []string) error {
	next := "use " + strings.Join(words, ", ")
	if meant := nearest.Name(key.Text, words); meant != "" {
		next = fmt.Sprintf("did you mean %q? Here one may %s", meant, next)
	} else if of == aFile && value.Kind == strictyaml.Map {
		next = "indent policies below policies:"
	}
	return c.fail(key.Offset, next, "%s is not a word of %s", clip(key.Text), of)
}

// What a map of words is, in messages.
const (
	aFile   = "a policy file"
	aPolicy = "a policy"
	aLimit  = "a limit"

	anOverride = "an override"
	aTest      = "a test"
	aStep      = "a step"
)

// kind says what a node is, as in "is a list".
func describeKind(n *strictyaml.Node) string {
	switch t := n.Type(); t {
	case "map", "list", "number", "boolean":
		return "a " + t
	case "integer":
		return "a number"
	default:
		return t
	}
}

// policyFile reads the whole file.
func (c *checker) policyFile(root *strictyaml.Node) (*File, error) {
	const write = "write version: 1, and policies: with the policies below it"
	if root.Type() == "nothing" {
		return nil, c.fail(root.Offset, write, "the file is empty")
	}
	if root.Kind != strictyaml.Map {
		return nil, c.fail(root.Offset, write, "the file is %s, not a map", describeKind(root))
	}
	f := &File{Name: c.file, byName: map[string]*Policy{}}
	if err := apply(c, fileWords, aFile, root, f); err != nil {
		return nil, err
	}
	for _, word := range requiredWords {
		if !has(root, word) {
			return nil, c.fail(root.Offset, write, "%s: is missing", word)
		}
	}
	if err := c.completeTests(f); err != nil {
		return nil, err
	}
	return f, nil
}

func has(m *strictyaml.Node, word string) bool {
	for key := range m.Pairs() {
		if key.Text == word {
			return true
		}
	}
	return false
}

func (c *checker) setVersion(_ *File, _, value *strictyaml.Node) error {
	if value.Type() != "integer" || value.Text != "1" {
		return c.fail(value.Offset, "write version: 1", "the version is not the number 1, the only one there is")
	}
	return nil
}

func (c *checker) setPolicies(f *File, key, value *strictyaml.Node) error {
	if value.Kind != strictyaml.Map || value.Len() == 0 {
		at := value.Offset
		if value.Type() == "nothing" {
			at = key.Offset
		}
		return c.fail(at, "write the name of a policy and, indented below it, limit: 10 per minute", "there are no policies")
	}
	f.Policies = make([]*Policy, 0, value.Len())
	for name, words := range value.Pairs() {
		p, err := c.policy(name, words)
		if err != nil {
			return err
		}
		f.Policies = append(f.Policies, p)
		f.byName[p.Name] = p
	}
	return c.checkBlockNames(f, value)
}

// policyDraft is a policy as it is being read.
type policyBuilder struct {
	policy        *Policy
	limits        []*limitBuilder
	limitWord     *strictyaml.Node // limit or limits, whichever came first
	denied, batch *strictyaml.Node // their values, where they are given
	count         *strictyaml.Node
	cells         int
	cellsAt       int // where their number stands

	// Read once the limits are known.
	planBy, plansWord, plans, overrides, costs *strictyaml.Node

	planNames map[string]bool
}

func (c *checker) policy(name, words *strictyaml.Node) (*Policy, error) {
	if !weir.ValidName(name.Text) {
		return nil, c.fail(name.Offset, useName, "%s cannot be the name of a policy", clip(name.Text))
	}
	if words.Kind != strictyaml.Map {
		next := "write limit: 10 per minute on the line below, indented"
		if strings.Contains(words.Text, ":") {
			next = "put a space behind the colon"
		}
		return nil, c.fail(words.Offset, next, "%s in place of the words of policy %s", describeKind(words), clip(name.Text))
	}
	d := policyBuilder{policy: &Policy{Line: name.Line}}
	d.policy.Name = name.Text
	if err := apply(c, policyWords, aPolicy, words, &d); err != nil {
		return nil, err
	}
	if d.limitWord == nil {
		return nil, c.fail(name.Offset, "add limit: 10 per minute, or limits: with a name for each", "policy %s has no limit", clip(name.Text))
	}
	return d.policy, c.complete(&d, name)
}

// complete puts together what the words of a policy said. The last word has
// weir's own check.
func (c *checker) complete(d *policyBuilder, name *strictyaml.Node) error {
	if err := c.setMode(d); err != nil {
		return err
	}
	p := d.policy
	p.Limits = make([]weir.Limit, len(d.limits))
	p.Units = make([]string, len(d.limits))
	for i, l := range d.limits {
		if l.limit.Kind == weir.Rolling {
			l.limit.Cells = d.cells
		}
		p.Limits[i], p.Units[i] = l.limit, l.unit
	}
	if d.cells > 0 && !slices.ContainsFunc(p.Limits, func(l weir.Limit) bool { return l.Kind == weir.Rolling }) {
		return c.fail(d.cellsAt, "remove cells: a fixed window is remembered as one number anyway", "cells are for windows that roll, and policy %s has none", clip(p.Name))
	}
	if err := c.completeBlocks(d, name); err != nil {
		return err
	}
	if err := c.completeCosts(d); err != nil {
		return err
	}
	plan, err := p.Plan()
	if err != nil {
		return c.fault(d.faultOf(err, name.Offset))
	}
	if err := c.checkCountDenied(d); err != nil {
		return err
	}
	if err := c.completePlans(d); err != nil {
		return err
	}
	if err := c.completeOverrides(d, plan.Dimensions()); err != nil {
		return err
	}
	p.Unsupported = p.unsupported()
	return c.checkPlansUsed(d)
}

// oneNumber refuses other numbers where refused attempts count: such a history keeps
// no more than the least of its numbers needs (R6), so that under a larger one too
// much would be granted.
func (c *checker) checkCountDenied(d *policyBuilder) error {
	if d.policy.Mode != weir.CountDenied || d.plans == nil && d.overrides == nil {
		return nil
	}
	return c.fail(d.denied.Offset, "write denied: free, or a policy for each number", "denied: counted has no plans and no overrides: what is remembered fits one number only")
}

// setMode makes one of the two words that a weir.Mode is in the file.
func (c *checker) setMode(d *policyBuilder) error {
	count := d.denied != nil && d.denied.Text == counted
	part := d.batch != nil && d.batch.Text == partial
	switch {
	case count && d.policy.ChargeOn == Reported:
		at := max(d.denied.Offset, d.count.Offset)
		return c.fail(at, "remove one of the two", "denied: counted and count: reported contradict each other: one counts every attempt, the other none")
	case count && part:
		at := max(d.denied.Offset, d.batch.Offset)
		return c.fail(at, "remove one of the two", "denied: counted and batch: partial contradict each other: one counts all units of an attempt that does not fit, the other grants some of them")
	case count:
		d.policy.Mode = weir.CountDenied
	case part:
		d.policy.Mode = weir.Partial
	}
	return nil
}

// choice returns the index of the value among those that the word may have.
func (c *checker) choice(key, value *strictyaml.Node, values []string) (int, error) {
	i := slices.Index(values, value.Text)
	if i < 0 || value.Type() != "text" {
		return 0, c.fail(value.Offset, "use one of "+strings.Join(values, ", "), "%s: %s is not one of its values", key.Text, c.quote(value))
	}
	return i, nil
}

// show quotes a scalar, or says what a node is.
func (c *checker) quote(n *strictyaml.Node) string {
	if n.Kind != strictyaml.Scalar || n.Text == "" {
		return describeKind(n)
	}
	return clip(n.Text)
}
