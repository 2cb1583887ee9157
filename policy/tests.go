package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// Test is one test of a file: steps in virtual time, with their expected decisions. It
// begins with empty histories.
type Test struct {
	Name   string
	Policy *Definition
	From   time.Time   // the instant of 0s
	Key    []Dimension // for the steps without a key
	Steps  []Step      // at least one, in the order of their instants
	Line   int         // line of its name in the file
}

// Step is one call at an instant of a test.
type Step struct {
	At     time.Duration // from the beginning of the test
	Do     string        // the call, as in the file: check, peek, record or reset
	Key    []Dimension   // with the value of plan-by, if there is one
	N      int64         // units
	Limit  string        // for a reset: the limit; "" = those that count by every key
	Times  int64         // the number of repetitions; each must meet the expectation
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
	policyName string
	policyAt   int // its offset, 0 after a fault
}

// setTests reads the tests, after the policies. It skips tests of rejected policies.
func (c *checker) setTests(f *File, tests *yamlnode.Node) {
	wantFilled(yamlnode.Map, tests,
		"write a sentence that describes the test and, indented below it, policy:, key: and steps:",
		"tests: is %s, not a map of sentences to tests")
	for name, words := range tests.Pairs() {
		c.try(func() { f.Tests = append(f.Tests, c.test(f, name, words)) })
	}
}

func (c *checker) test(f *File, name, words *yamlnode.Node) *Test {
	want(yamlnode.Map, words, "write policy:, key: and steps: below it, indented",
		"%s in place of the words of a test")
	d := testBuilder{test: Test{Name: name.Text, From: defaultFrom, Line: name.Line}}
	ok := apply(c, testWords, aTest, words, &d)
	_, steps := find(words, "steps")
	switch {
	case ok && (!has(words, "policy") || steps == nil):
		fail(name.Offset, "add policy: with the name of one, and steps: with a list",
			"the test is incomplete")
	case d.policyAt == 0 || steps == nil || len(c.names) == 0 || c.rejected[d.policyName]:
		panic(recorded)
	}
	if d.test.Policy = f.Definition(d.policyName); d.test.Policy == nil {
		fail(d.policyAt, nextName(d.policyName, c.names, "the policies are "),
			"there is no policy %s", clip(d.policyName))
	}
	expects := func(s Step) bool { return s.Expect != Expectation{} }
	ok = c.try(func() { c.steps(&d, steps) }) && ok
	if ok && !slices.ContainsFunc(d.test.Steps, expects) {
		fail(name.Offset, "add expect: allowed or expect: denied to a step",
			"the test expects nothing, so it cannot fail")
	}
	return &d.test
}

func (d *testBuilder) setPolicy(at int, word string) { d.policyAt, d.policyName = at, word }

// setFrom reads the beginning of a test. A day begins in UTC.
func (d *testBuilder) setFrom(at int, word string) {
	d.test.From = instantAt(at, word, 0, "write a day such as 2026-12-31, "+
		"for its beginning in UTC, or an instant such as 2026-12-31T18:00:00Z")
}

// keyOf is the setter of key:, a map of keys and their values.
func keyOf[T any](to func(T) *[]Dimension) setter[T] {
	return func(c *checker, target T, _, value *yamlnode.Node) {
		want(yamlnode.Map, value, "write key: {user: ann}",
			"key: is %s, not a map of keys and values")
		all := to(target)
		*all = nil
		for name, text := range value.Pairs() {
			c.try(func() { *all = append(*all, dimension(name, text)) })
		}
	}
}

// maxTimes is the largest number of repetitions of a step. It bounds the time of a test.
const maxTimes = 10_000

// stepBuilder is a step while the checker reads it.
type stepBuilder struct {
	step   Step
	policy *Definition // of its test
}

func (c *checker) steps(d *testBuilder, steps *yamlnode.Node) {
	wantFilled(yamlnode.List, steps, "write a list, each item such as {at: 0s, expect: allowed}",
		"steps: is %s, not a list of them")
	at := time.Duration(0)
	for item := range steps.Items() {
		s := stepBuilder{policy: d.test.Policy}
		s.step = Step{
			At:    at,
			Do:    doCheck,
			N:     1,
			Times: 1,
			Key:   d.test.Key,
			Line:  item.Line,
		}
		c.try(func() { c.step(&s, item, at) })
		at = s.step.At
		d.test.Steps = append(d.test.Steps, s.step)
	}
}

func (c *checker) step(s *stepBuilder, item *yamlnode.Node, before time.Duration) {
	want(yamlnode.Map, item, "write one such as {at: 0s, expect: allowed}", "%s in place of a step")
	if !apply(c, stepWords, aStep, item, s) {
		panic(recorded)
	}
	if s.step.Do == doReset {
		s.takeLimit(item)
	}
	switch {
	case s.step.At < before:
		fail(item.Offset, "put the steps in the order of their instants",
			"the step is before the one above it, at %s", duration.Format(before))
	case s.step.Expect.Warning != nil && s.policy.WarnPercents == nil:
		key, _ := find(item, "warning")
		fail(key.Offset, "add warn: 80% to the policy or to a limit",
			"policy %s never warns", s.policy.Name)
	case s.step.Do == doReset && s.step.Expect != Expectation{}:
		fail(item.Offset, "remove the expectation", "a reset is not a decision")
	}
	charging := doCheck
	if s.policy.Reported {
		charging = doRecord
	}
	if why := s.step.contradiction(charging); why != "" {
		fail(item.Offset, "remove one of the two", "no decision can be like that: %s", why)
	}
	s.checkKey(item)
}

// takeLimit moves the limit from the expectation of a reset to the step: it names the limit to
// reset.
func (s *stepBuilder) takeLimit(item *yamlnode.Node) {
	if limit := s.step.Expect.Limit; limit != nil {
		if *limit == "" {
			fail(item.Offset, "name the limit to reset, or leave limit: out",
				"none is not a limit of policy %s", s.policy.Name)
		}
		s.step.Limit, s.step.Expect.Limit = *limit, nil
		return
	}
	byAll := func(l weir.Limit) bool { return len(l.By) == len(s.policy.Dimensions()) }
	if !slices.ContainsFunc(s.policy.Limits, byAll) {
		fail(item.Offset, "add limit: with the name of the one to reset",
			"no limit of policy %s counts by all of %s",
			s.policy.Name, listed(s.policy.Dimensions()))
	}
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
	case s.Do == doRecord && s.N > 0 && denied: // a record of 0 is a peek (R4)
		return "a record is never denied"
	case e.Warning == nil || !*e.Warning:
	case denied:
		return "denied, and only grants carry a warning"
	case s.N == 0 || s.Do != charging:
		return "only a grant that takes units carries a warning"
	}
	return ""
}

// checkKey rejects a step with a key that does not match the policy.
func (s *stepBuilder) checkKey(item *yamlnode.Node) {
	p, dimensions := s.policy, s.policy.Dimensions()
	given := mapped(s.step.Key, func(d Dimension) string { return d.Name })
	for _, name := range dimensions {
		if !slices.Contains(given, name) {
			fail(item.Offset, "add "+name+" to key: of the step or of the test",
				"the key has no %s, by which policy %s counts", name, p.Name)
		}
	}
	for _, name := range given {
		if name != p.PlanBy && !slices.Contains(dimensions, name) {
			fail(item.Offset, "it counts by "+cmp.Or(listed(dimensions), "nothing"),
				"policy %s has no key %s", p.Name, clip(name))
		}
	}
	for _, d := range s.step.Key {
		if bits, isAddress := p.Addresses[d.Name]; !isAddress {
			continue
		} else if _, ok := clientaddr.Canonical(d.Value, bits); !ok {
			fail(item.Offset, "write one such as 192.0.2.7 or 2001:db8::1",
				"the %s of the key, %s, is not an address", d.Name, clip(d.Value))
		}
	}
}

// maxAt bounds the virtual time of a test, so that weir can decide at every instant.
const maxAt = 25 * weir.MaxWindow

func (s *stepBuilder) setAt(at int, word string) {
	length, ok := parseLength(word)
	switch {
	case !ok:
		fail(at, useLength+", counted from the beginning of the test",
			"%s is not an instant of a test", clip(word))
	case length > maxAt:
		fail(at, "use at most "+duration.Format(maxAt),
			"%s is longer than a test can last", clip(word))
	}
	s.step.At = length
}

var expectValues = []string{"allowed", "denied"}

// fresh sets a new value, and returns its place.
func fresh[T any](to **T) *T {
	*to = new(T)
	return *to
}

func (s *stepBuilder) setRetry(at int, word string) {
	wait, ok := parseLength(word)
	switch {
	case word == "never":
		wait = weir.Never
	case !ok || wait == math.MaxInt64:
		fail(at, useLength+", or never", "%s is not a wait", clip(word))
	}
	s.step.Expect.Retry = &wait
}

func (s *stepBuilder) setLimit(at int, word string) {
	switch {
	case s.policy.limitNamed(word) >= 0:
	case word == "none":
		word = ""
	default:
		fail(at, "name the limit that binds, or none",
			"policy %s has no limit %s", s.policy.Name, clip(word))
	}
	s.step.Expect.Limit = &word
}
