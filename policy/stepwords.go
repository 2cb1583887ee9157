package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/yamlnode"
)

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
			return c.fail(item.Offset, fmt.Sprintf("it counts by %s", listedOr(dimensions, "nothing")), "policy %s has no key %s", p.Name, clip(d.Name))
		}
	}
	return true
}

func (c *checker) setStepKey(s *stepBuilder, key, value *yamlnode.Node) (ok bool) {
	s.step.Key, ok = c.keyOf(key, value)
	return ok
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

// listedOr is listed, or another word for no names.
func listedOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return listed(names)
}
