package policy

import (
	"time"

	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

// begin is the instant of 0s where a test names none: before any override ends.
var defaultFrom = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// testDraft is a test as it is being read.
type testBuilder struct {
	test              Test
	policyWord, steps *strictyaml.Node // values
	policyName        string
	dimensions        []string
	expectsSomething  bool
}

func (c *checker) deferTests(f *File, _, value *strictyaml.Node) error {
	c.tests = value
	return nil
}

// completeTests reads the tests, once the policies are known.
func (c *checker) completeTests(f *File) error {
	if c.tests == nil {
		return nil
	}
	if c.tests.Kind != strictyaml.Map || c.tests.Len() == 0 {
		return c.fail(c.tests.Offset, "write what a test shows and, indented below it, policy:, key: and steps:", "tests: has no names with tests")
	}
	for name, words := range c.tests.Pairs() {
		t, err := c.test(f, name, words)
		if err != nil {
			return err
		}
		f.Tests = append(f.Tests, t)
	}
	return nil
}

func (c *checker) test(f *File, name, words *strictyaml.Node) (*Test, error) {
	if words.Kind != strictyaml.Map {
		return nil, c.fail(words.Offset, "write policy:, key: and steps: below it, indented", "%s in place of the words of a test", describeKind(words))
	}
	d := testBuilder{test: Test{Name: name.Text, From: defaultFrom, Line: name.Line}}
	if err := apply(c, testWords, aTest, words, &d); err != nil {
		return nil, err
	}
	if d.policyWord == nil || d.steps == nil {
		return nil, c.fail(name.Offset, "add policy: with the name of one, and steps: with a list", "the test says not enough")
	}
	if d.test.Policy = f.Policy(d.policyName); d.test.Policy == nil {
		return nil, c.fail(d.policyWord.Offset, "name one of policies:", "there is no policy %s", clip(d.policyName))
	}
	plan, err := d.test.Policy.Plan()
	if err != nil {
		return nil, c.fail(d.policyWord.Offset, "correct the policy", "%v", err)
	}
	d.dimensions = plan.Dimensions()
	if err := c.steps(&d); err != nil {
		return nil, err
	}
	if !d.expectsSomething {
		return nil, c.fail(name.Offset, "add expect: allowed or expect: denied to a step", "the test expects nothing, so it cannot fail")
	}
	return &d.test, nil
}

func (c *checker) setTestPolicy(d *testBuilder, key, value *strictyaml.Node) error {
	d.policyWord = value
	return c.text(key, value, func(_ int, word string) *fault {
		d.policyName = word
		return nil
	})
}

func (c *checker) setFrom(d *testBuilder, key, value *strictyaml.Node) error {
	return c.scalar(key, value, func(at int, word string) *fault {
		from, ok := parseInstant(word)
		if day, err := time.Parse(time.DateOnly, word); err == nil && inRange(day) {
			from, ok = day, true
		}
		if f := missingZone(at, word); !ok && f != nil {
			return f
		}
		if !ok {
			return faultf(at, "write a day such as 2026-12-31, whose beginning in UTC is meant, or an instant such as 2026-12-31T18:00:00Z", "%s is not an instant", clip(word))
		}
		d.test.From = from
		return nil
	})
}

func (c *checker) setTestKey(d *testBuilder, key, value *strictyaml.Node) (err error) {
	d.test.Key, err = c.keyOf(key, value)
	return err
}

// keyOf reads a map of keys and their values.
func (c *checker) keyOf(key, value *strictyaml.Node) ([]Dimension, error) {
	if value.Kind != strictyaml.Map {
		return nil, c.fail(value.Offset, "write "+key.Text+": {user: ann}", "%s: is %s, not a map of keys and values", key.Text, describeKind(value))
	}
	var all []Dimension
	for name, text := range value.Pairs() {
		if err := c.keyValue(name, text); err != nil {
			return nil, err
		}
		all = append(all, Dimension{name.Text, text.Text})
	}
	return all, nil
}

func (c *checker) deferSteps(d *testBuilder, _, value *strictyaml.Node) error {
	d.steps = value
	return nil
}
