package policy

import (
	"errors"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

// addLimit reads a limit and adds it to a policy.
func (c *checker) addLimit(d *policyBuilder, name string, at int, value *strictyaml.Node) bool {
	l, ok := c.limit(value)
	if !ok {
		d.rejected = true
		return false
	}
	l.limit.Name, l.at.name = name, at
	d.limits = append(d.limits, l)
	return true
}

// limit reads a limit without its name, as a line or in the long form.
func (c *checker) limit(value *strictyaml.Node) (*limitBuilder, bool) {
	if value.Kind == strictyaml.Map {
		return c.longLimit(value)
	}
	if value.Kind == strictyaml.List {
		return nil, c.fail(value.Offset, "write one such as 10 per minute per user; several limits stand below limits:, each with a name", "a list in place of a limit")
	}
	inDocument := func(i int) int { return value.At(c.doc, i) }
	l, f := parseLine(value.Text)
	if f != nil {
		f.at = inDocument(f.at)
		return nil, c.accept(f)
	}
	l.at.move(inDocument)
	return l, true
}

// longLimit reads {max: 10, window: 1m, per: [user], apart: 3s, block: 1h, kind: fixed, unit: messages}.
func (c *checker) longLimit(value *strictyaml.Node) (*limitBuilder, bool) {
	l := &limitBuilder{at: offsets{max: value.Offset, window: value.Offset, apart: value.Offset, block: value.Offset, kind: value.Offset}}
	if !apply(c, limitWords, aLimit, value, l) {
		return nil, false
	}
	if !has(value, "max") {
		return nil, c.fail(value.Offset, "add max: 10, or max: unlimited", "the limit has no max")
	}
	if !l.hasWindow && !l.unlimited {
		return nil, c.fail(value.Offset, "add window: minute, or a length such as window: 30m", "the limit has no window")
	}
	l.complete()
	return l, true
}

// scalar passes the text of a value and its offset to set.
func (c *checker) scalar(key, value *strictyaml.Node, set func(at int, word string) *fault) bool {
	if value.Kind != strictyaml.Scalar || value.Null() {
		return c.fail(value.Offset, "write a single word", "%s: is %s", key.Text, describeKind(value))
	}
	return c.accept(set(value.At(c.doc, 0), value.Text))
}

func (c *checker) setMax(l *limitBuilder, key, value *strictyaml.Node) bool {
	return c.scalar(key, value, l.setMax)
}

func (c *checker) setWindow(l *limitBuilder, key, value *strictyaml.Node) bool {
	return c.scalar(key, value, l.setWindow)
}

func (c *checker) setApart(l *limitBuilder, key, value *strictyaml.Node) bool {
	return c.scalar(key, value, l.setApart)
}

func (c *checker) setBlock(l *limitBuilder, key, value *strictyaml.Node) bool {
	return c.scalar(key, value, l.setBlock)
}

func (c *checker) setKind(l *limitBuilder, key, value *strictyaml.Node) bool {
	i, ok := c.choice(key, value, kindValues)
	l.limit.Kind, l.hasKind, l.at.kind = weir.Kind(i), true, value.Offset
	return ok
}

func (c *checker) setUnit(l *limitBuilder, key, value *strictyaml.Node) bool {
	return c.text(key, value, l.setUnit)
}

func (c *checker) setKeys(l *limitBuilder, key, value *strictyaml.Node) bool {
	if value.Kind != strictyaml.List {
		return c.text(key, value, l.addKey)
	}
	ok := true
	for item := range value.Items() {
		ok = c.text(key, item, l.addKey) && ok
	}
	return ok
}

// text is scalar without numbers and booleans, because other programs would not read
// them as text.
func (c *checker) text(key, value *strictyaml.Node, set func(at int, word string) *fault) bool {
	if t := value.Type(); value.Kind == strictyaml.Scalar && t != "text" && t != "nothing" {
		return c.fail(value.Offset, "put it in quotes if it is meant as text", "%s: %s is %s, not text", key.Text, clip(value.Text), describeKind(value))
	}
	return c.scalar(key, value, set)
}

// validate returns the fault that weir's own check finds in a limit outside a policy.
func (d *limitBuilder) validate() *fault {
	l := d.limit
	l.Name = onlyLimitName
	_, err := weir.Policy{Name: "policy", Limits: []weir.Limit{l}}.Plan()
	if err == nil {
		return nil
	}
	return d.faultOf(asPolicyError(err))
}

// asPolicyError returns the *weir.PolicyError in err, the only kind that Plan returns.
func asPolicyError(err error) *weir.PolicyError {
	var e *weir.PolicyError
	if !errors.As(err, &e) {
		return &weir.PolicyError{Problem: err.Error()}
	}
	return e
}

// faultOf returns an error of weir's own check in the words of the file.
func (d *limitBuilder) faultOf(e *weir.PolicyError) *fault {
	switch e.Field {
	case "Max":
		return faultf(d.at.max, "use 0 to "+formatNumber(weir.MaxUnits)+", or unlimited", "the count is above the largest")
	case "Window":
		if d.limit.Window < weir.MinWindow {
			return faultf(d.at.window, "use 1ms to 400d", "the window is shorter than 1ms")
		}
		return faultf(d.at.window, "use 1ms to 400d", "the window is longer than 400 days")
	case "MinInterval":
		return faultf(d.at.apart, "use at most "+FormatDuration(d.limit.Window)+" apart, or a longer window", "the time apart is longer than the window")
	}
	problem, next, _ := strings.Cut(e.Problem, "; ")
	return faultf(d.at.name, next, "%s", problem)
}
