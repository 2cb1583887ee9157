package policy

import (
	"errors"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

// addLimit reads a limit, as a line or in its long form.
func (c *checker) addLimit(d *policyBuilder, name string, at int, value *strictyaml.Node) error {
	l, err := c.limit(value)
	if err != nil {
		return err
	}
	l.limit.Name, l.at.name = name, at
	d.limits = append(d.limits, l)
	return nil
}

// limit reads a limit that has no name yet.
func (c *checker) limit(value *strictyaml.Node) (*limitBuilder, error) {
	if value.Kind == strictyaml.Map {
		return c.longLimit(value)
	}
	return c.lineLimit(value)
}

func (c *checker) lineLimit(value *strictyaml.Node) (*limitBuilder, error) {
	if value.Kind != strictyaml.Scalar {
		return nil, c.fail(value.Offset, "write one such as 10 per minute per user", "a list in place of a limit")
	}
	inDocument := func(i int) int { return value.At(c.doc, i) }
	l, f := parseLine(value.Text)
	if f != nil {
		f.at = inDocument(f.at)
		return nil, c.fault(f)
	}
	l.at.move(inDocument)
	return l, nil
}

// longLimit reads {max: 10, window: 1m, per: [user], apart: 3s, block: 1h, kind: fixed, unit: messages}.
func (c *checker) longLimit(value *strictyaml.Node) (*limitBuilder, error) {
	l := &limitBuilder{at: offsets{max: value.Offset, window: value.Offset, apart: value.Offset, block: value.Offset, kind: value.Offset}}
	if err := apply(c, limitWords, aLimit, value, l); err != nil {
		return nil, err
	}
	if !has(value, "max") {
		return nil, c.fail(value.Offset, "add max: 10, or max: unlimited", "the limit has no max")
	}
	if !l.hasWindow && !l.unlimited {
		return nil, c.fail(value.Offset, "add window: minute, or a length such as window: 30m", "the limit has no window")
	}
	l.complete()
	return l, nil
}

// scalar passes the text of a value, and its place, to a setter of the draft.
func (c *checker) scalar(key, value *strictyaml.Node, set func(at int, word string) *fault) error {
	if value.Kind != strictyaml.Scalar || value.Null() {
		return c.fail(value.Offset, "write a single word", "%s: is %s", key.Text, describeKind(value))
	}
	return c.fault(set(value.At(c.doc, 0), value.Text))
}

func (c *checker) setMax(l *limitBuilder, key, value *strictyaml.Node) error {
	return c.scalar(key, value, l.setMax)
}

func (c *checker) setWindow(l *limitBuilder, key, value *strictyaml.Node) error {
	return c.scalar(key, value, l.setWindow)
}

func (c *checker) setApart(l *limitBuilder, key, value *strictyaml.Node) error {
	return c.scalar(key, value, l.setApart)
}

func (c *checker) setBlock(l *limitBuilder, key, value *strictyaml.Node) error {
	return c.scalar(key, value, l.setBlock)
}

func (c *checker) setKind(l *limitBuilder, key, value *strictyaml.Node) error {
	i, err := c.choice(key, value, kindValues)
	l.limit.Kind, l.hasKind, l.at.kind = weir.Kind(i), true, value.Offset
	return err
}

func (c *checker) setUnit(l *limitBuilder, key, value *strictyaml.Node) error {
	return c.text(key, value, l.setUnit)
}

func (c *checker) setKeys(l *limitBuilder, key, value *strictyaml.Node) error {
	if value.Kind != strictyaml.List {
		return c.text(key, value, l.addKey)
	}
	for item := range value.Items() {
		if err := c.text(key, item, l.addKey); err != nil {
			return err
		}
	}
	return nil
}

// text is scalar for words that must not look like a number or a boolean, which
// other readers of the file would take them for.
func (c *checker) text(key, value *strictyaml.Node, set func(at int, word string) *fault) error {
	if t := value.Type(); value.Kind == strictyaml.Scalar && t != "text" && t != "nothing" {
		return c.fail(value.Offset, "put it in quotes if it is meant", "%s: %s is %s, not text", key.Text, clip(value.Text), describeKind(value))
	}
	return c.scalar(key, value, set)
}

// verdict is weir's own check of the limit, for one that is not in a policy.
func (d *limitBuilder) validate() *fault {
	l := d.limit
	l.Name = "limit"
	_, err := weir.Policy{Name: "policy", Limits: []weir.Limit{l}}.Plan()
	if err == nil {
		return nil
	}
	return d.faultOf(asPolicyError(err))
}

// asPolicyError returns the only kind of error that Plan has.
func asPolicyError(err error) *weir.PolicyError {
	var e *weir.PolicyError
	if !errors.As(err, &e) {
		return &weir.PolicyError{Problem: err.Error()}
	}
	return e
}

// fault says in the words of the file what weir finds wrong with the limit.
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
