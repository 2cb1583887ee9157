package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// Test is one test of a file: steps in virtual time, with their expected decisions. It
// begins with empty histories.
type Test struct {
	Name   string
	Policy *Definition
	From   time.Time   // the instant of 0s
	Key    []Dimension // of the steps without a key
	Steps  []Step      // at least one, in the order of their instants
	Line   int         // of its name in the file
}

// Step is one call at an instant of a test.
type Step struct {
	At     time.Duration // from the beginning of the test
	Do     string        // the call, as in the file: check, peek, record or reset
	Key    []Dimension   // with the value of plan-by, if there is one
	N      int64         // units
	Times  int           // the number of repetitions; each must meet the expectation
	Expect Expectation
	Line   int // in the file
}

// The words of the file for the call of a step.
const (
	doCheck  = "check"  // an attempt, as POST /v1/check
	doPeek   = "peek"   // decides and charges nothing
	doRecord = "record" // charges units without a decision
	doReset  = "reset"  // deletes the histories of the key
)

var doValues = []string{doCheck, doPeek, doRecord, doReset}

// Expectation is the expected decision of a step. Nil fields are not compared.
type Expectation struct {
	Allowed   *bool
	Granted   *int64
	Remaining *int64
	Retry     *time.Duration // until the same request fits; weir.Never
	Limit     *string        // the limit that denied, "" for none
	Warning   *bool          // the grant carries the warning of a limit
}

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

// keyOf is the setter of a word with a map of keys and their values.
func keyOf[T any](to func(T) *[]Dimension) setter[T] {
	return func(c *checker, target T, key, value *yamlnode.Node) bool {
		if value.Kind != yamlnode.Map {
			return c.fail(value.Offset, "write "+key.Text+": {user: ann}", "%s: is %s, not a map of keys and values", key.Text, describeKind(value))
		}
		all, ok := to(target), true
		*all = nil
		for name, text := range value.Pairs() {
			ok = c.keyValue(name, text) && ok
			*all = append(*all, Dimension{name.Text, text.Text})
		}
		return ok
	}
}

// maxTimes is the largest number of repetitions of a step. It bounds the time of a test.
const maxTimes = 10_000

// stepBuilder is a step while the checker reads it.
type stepBuilder struct {
	step Step
	test *testBuilder
}

func (c *checker) steps(d *testBuilder) bool {
	steps := d.steps.value
	if steps.Kind != yamlnode.List || steps.Len() == 0 {
		return c.fail(steps.Offset, "write a list, each item such as {at: 0s, expect: allowed}", "steps: is %s, not a list of them", describeKind(steps))
	}
	at := time.Duration(0)
	ok := true
	for item := range steps.Items() {
		if item.Kind != yamlnode.Map {
			ok = c.fail(item.Offset, "write one such as {at: 0s, expect: allowed}", "%s in place of a step", describeKind(item))
			continue
		}
		s := stepBuilder{step: Step{At: at, Do: doCheck, N: 1, Times: 1, Key: d.test.Key, Line: item.Line}, test: d}
		ok = c.step(&s, item, at) && ok
		at = s.step.At
		d.test.Steps = append(d.test.Steps, s.step)
	}
	return ok
}

func (c *checker) step(s *stepBuilder, item *yamlnode.Node, before time.Duration) bool {
	if !apply(c, stepWords, aStep, item, s) {
		return false
	}
	empty := s.step.Expect == Expectation{}
	switch {
	case s.step.At < before:
		return c.fail(item.Offset, "put the steps in the order of their instants", "the step is before the one above it, at %s", FormatDuration(before))
	case s.step.Do == doReset && !empty:
		return c.fail(item.Offset, "remove the expectation", "a reset is not a decision")
	}
	charging := doCheck
	if s.test.test.Policy.Reported {
		charging = doRecord
	}
	if why := s.step.contradiction(charging); why != "" {
		return c.fail(item.Offset, "remove one of the two", "no decision can be like that: %s", why)
	}
	s.test.expects = s.test.expects || !empty
	return c.stepKey(s, item)
}

// contradiction returns the reason why no decision can meet the expectation, or "".
// charging is the operation that takes units under the policy.
func (s *Step) contradiction(charging string) string {
	e := &s.Expect
	allowed, denied := e.Allowed != nil && *e.Allowed, e.Allowed != nil && !*e.Allowed
	switch {
	case e.Granted != nil && *e.Granted > s.N:
		return "more is granted than the n of " + formatNumber(s.N)
	case denied && e.Granted != nil && *e.Granted > 0:
		return "denied, and units are granted"
	case allowed && e.Granted != nil && *e.Granted == 0 && s.N > 0:
		return "allowed, and no units are granted"
	case denied && e.Limit != nil && *e.Limit == "":
		return "denied, and by no limit"
	case denied && e.Retry != nil && *e.Retry == 0:
		return "denied, and the same request fits now"
	case s.Do == doRecord && denied:
		return "a record is never denied"
	case e.Warning == nil || !*e.Warning:
	case denied:
		return "denied, and only grants carry a warning"
	case s.N == 0 || s.Do != charging:
		return "only a grant that takes units carries a warning"
	}
	return ""
}

// stepKey rejects a step with a key that does not match the policy.
func (c *checker) stepKey(s *stepBuilder, item *yamlnode.Node) bool {
	p, dimensions := s.test.test.Policy, s.test.dimensions
	given := func(name string) bool {
		return slices.ContainsFunc(s.step.Key, func(d Dimension) bool { return d.Name == name })
	}
	for _, name := range dimensions {
		if !given(name) {
			return c.fail(item.Offset, "add "+name+" to key: of the step or of the test", "the key has no %s, by which policy %s counts", name, p.Name)
		}
	}
	for _, d := range s.step.Key {
		if d.Name != p.PlanBy && !slices.Contains(dimensions, d.Name) {
			return c.fail(item.Offset, "it counts by "+cmp.Or(listed(dimensions), "nothing"), "policy %s has no key %s", p.Name, clip(d.Name))
		}
	}
	return true
}

// maxAt bounds the virtual time of a test, so that weir can decide at every instant.
const maxAt = 25 * weir.MaxWindow

func (s *stepBuilder) setAt(at int, word string) *fault {
	length, ok := parseLength(word)
	if !ok || length > maxAt {
		return faultf(at, useLength+", counted from the beginning of the test", "%s is not an instant of a test", clip(word))
	}
	s.step.At = length
	return nil
}

func (c *checker) setTimes(s *stepBuilder, key, value *yamlnode.Node) bool {
	var n int64
	if !c.whole(key, value, maxTimes, &n) {
		return false
	}
	if n == 0 {
		return c.fail(value.Offset, "remove the step, or write times: 1", "a step of no times")
	}
	s.step.Times = int(n)
	return true
}

func (c *checker) setGranted(s *stepBuilder, key, value *yamlnode.Node) bool {
	s.step.Expect.Granted = new(int64)
	return c.whole(key, value, weir.MaxUnits, s.step.Expect.Granted)
}

// setRemaining accepts numbers below 0, which a record can lead to.
func (c *checker) setRemaining(s *stepBuilder, key, value *yamlnode.Node) bool {
	n, below := new(int64), *value
	if len(value.Text) > 1 && value.Text[0] == '-' {
		below.Text = value.Text[1:]
	}
	ok := c.whole(key, &below, weir.MaxUnits, n)
	if below.Text != value.Text {
		*n = -*n
	}
	s.step.Expect.Remaining = n
	return ok
}

// whole reads a whole number of 0 … most.
func (c *checker) whole(key, value *yamlnode.Node, most int64, to *int64) bool {
	return c.scalar(key, value, func(at int, word string) *fault {
		n, problem := parseNumber(word)
		if problem != "" || n > most {
			return faultf(at, "use a whole number of 0 to "+formatNumber(most), "%s: %s is not one of its numbers", key.Text, clip(word))
		}
		*to = n
		return nil
	})
}

var expectValues = []string{"allowed", "denied"}

func (s *stepBuilder) setRetry(at int, word string) *fault {
	wait, ok := parseLength(word)
	switch {
	case word == "never":
		wait = weir.Never
	case !ok || wait == math.MaxInt64:
		return faultf(at, useLength+", or never", "%s is not a wait", clip(word))
	}
	s.step.Expect.Retry = &wait
	return nil
}

func (s *stepBuilder) setLimit(at int, word string) *fault {
	p := s.test.test.Policy
	switch {
	case p.limitNamed(word) >= 0:
	case word == "none":
		word = ""
	default:
		return faultf(at, "name the limit that binds, or none", "policy %s has no limit %s", p.Name, clip(word))
	}
	s.step.Expect.Limit = &word
	return nil
}

func (c *checker) setWarning(s *stepBuilder, key, value *yamlnode.Node) bool {
	if s.test.test.Policy.WarnPercents == nil {
		return c.fail(key.Offset, "add warn: 80% to the policy or to a limit", "policy %s never warns", s.test.test.Policy.Name)
	}
	s.step.Expect.Warning = new(bool)
	return boolean(func(s *stepBuilder) *bool { return s.step.Expect.Warning })(c, s, key, value)
}
