package policy

import (
	"time"

	"github.com/weirlimit/weir/internal/yamlnode"
)

// defaultFrom is the instant of 0s of a test without from:, before any override ends.
var defaultFrom = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// testBuilder is a test while the checker reads it.
type testBuilder struct {
	test       Test
	steps      pair
	policyName string
	policyAt   int // its offset, 0 after a fault
	dimensions []string
	expects    bool // a step has an expectation
}

// readTests reads the tests, after the policies. It skips tests of rejected policies.
func (c *checker) readTests(f *fileBuilder) {
	tests := f.tests.value
	if tests == nil {
		return
	}
	if tests.Kind != yamlnode.Map || tests.Len() == 0 {
		c.fail(tests.Offset, "write a sentence that describes the test and, indented below it, policy:, key: and steps:", "tests: is %s, not a map of sentences to tests", describeKind(tests))
		return
	}
	for name, words := range tests.Pairs() {
		if t, ok := c.test(f.File, name, words); ok {
			f.Tests = append(f.Tests, t)
		}
	}
}

func (c *checker) test(f *File, name, words *yamlnode.Node) (*Test, bool) {
	if words.Kind != yamlnode.Map {
		return nil, c.fail(words.Offset, "write policy:, key: and steps: below it, indented", "%s in place of the words of a test", describeKind(words))
	}
	d := testBuilder{test: Test{Name: name.Text, From: defaultFrom, Line: name.Line}}
	ok := apply(c, testWords, aTest, words, &d)
	if !has(words, "policy") || d.steps.key == nil {
		return nil, ok && c.fail(name.Offset, "add policy: with the name of one, and steps: with a list", "the test is incomplete")
	}
	if d.policyAt == 0 || len(c.names) == 0 || c.rejected[d.policyName] {
		return nil, false // the fault is recorded already
	}
	if d.test.Policy = f.Definition(d.policyName); d.test.Policy == nil {
		return nil, c.fail(d.policyAt, c.nextName(d.policyName, c.names, "the policies are "), "there is no policy %s", clip(d.policyName))
	}
	compiled, err := d.test.Policy.Compile()
	if err != nil {
		return nil, c.fail(d.policyAt, "correct the policy", "%v", err)
	}
	d.dimensions = compiled.Dimensions
	if !c.steps(&d) || !ok {
		return nil, false
	}
	if !d.expects {
		return nil, c.fail(name.Offset, "add expect: allowed or expect: denied to a step", "the test expects nothing, so it cannot fail")
	}
	return &d.test, true
}

func (d *testBuilder) setPolicy(at int, word string) *fault {
	d.policyAt, d.policyName = at, word
	return nil
}

func (d *testBuilder) setFrom(at int, word string) *fault {
	from, ok := parseInstant(word)
	if day, err := time.Parse(time.DateOnly, word); err == nil && inRange(day) {
		from, ok = day, true
	}
	if f := missingZone(at, word); !ok && f != nil {
		return f
	}
	if !ok {
		return faultf(at, "write a day such as 2026-12-31, for its beginning in UTC, or an instant such as 2026-12-31T18:00:00Z", "%s is not an instant", clip(word))
	}
	d.test.From = from
	return nil
}

func (c *checker) setTestKey(d *testBuilder, key, value *yamlnode.Node) (ok bool) {
	d.test.Key, ok = c.keyOf(key, value)
	return ok
}

// keyOf reads a map of keys and their values.
func (c *checker) keyOf(key, value *yamlnode.Node) ([]Dimension, bool) {
	if value.Kind != yamlnode.Map {
		return nil, c.fail(value.Offset, "write "+key.Text+": {user: ann}", "%s: is %s, not a map of keys and values", key.Text, describeKind(value))
	}
	var all []Dimension
	ok := true
	for name, text := range value.Pairs() {
		ok = c.keyValue(name, text) && ok
		all = append(all, Dimension{name.Text, text.Text})
	}
	return all, ok
}
