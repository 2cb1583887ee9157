package policy

import (
	"errors"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// addLimit reads a limit and adds it to a policy.
func (c *checker) addLimit(d *policyBuilder, name string, at int, value *yamlnode.Node) bool {
	l, ok := c.limit(value)
	if !ok || !c.accept(l.complete()) {
		d.rejected = true
		return false
	}
	l.limit.Name, l.at.name = name, at
	d.limits = append(d.limits, l)
	return true
}

// limit reads a limit without its name, as a line or in the long form. The caller completes
// it.
func (c *checker) limit(value *yamlnode.Node) (*limitBuilder, bool) {
	if value.Kind == yamlnode.Map {
		return c.longLimit(value)
	}
	if value.Kind == yamlnode.List {
		return nil, c.fail(value.Offset, "write one such as 10 per minute per user; several limits stand below limits:, each with a name", "a list in place of a limit")
	}
	l, f := parseLine(value.Text, func(i int) int { return value.At(c.doc, i) })
	return l, c.accept(f)
}

// longLimit reads {max: 10, window: 1m, per: [user], apart: 3s, block: 1h, kind: fixed, unit: messages}, with
// burst, zone, from and max_hold where the kind has them.
func (c *checker) longLimit(value *yamlnode.Node) (*limitBuilder, bool) {
	l := &limitBuilder{at: offsetsAt(value.Offset)}
	if !apply(c, limitWords, aLimit, value, l) {
		return nil, false
	}
	if !has(value, "max") {
		return nil, c.fail(value.Offset, "add max: 10, or max: unlimited", "the limit has no max")
	}
	if atOnce := l.form.atOnce || l.form.hasHold; !l.hasWindow && !l.unlimited && !atOnce {
		return nil, c.fail(value.Offset, "add window: minute, or a length such as window: 30m", "the limit has no window")
	}
	return l, true
}

// scalar passes the text of a value and its offset to set.
func (c *checker) scalar(key, value *yamlnode.Node, set func(at int, word string) *fault) bool {
	if value.Kind != yamlnode.Scalar || value.Null() {
		return c.fail(value.Offset, "write a single word", "%s: is %s", key.Text, describeKind(value))
	}
	return c.accept(set(value.At(c.doc, 0), value.Text))
}

func (c *checker) setKeys(l *limitBuilder, key, value *yamlnode.Node) bool {
	addKey := text((*limitBuilder).addKey)
	if value.Kind != yamlnode.List {
		return addKey(c, l, key, value)
	}
	ok := true
	for item := range value.Items() {
		ok = addKey(c, l, key, item) && ok
	}
	return ok
}

// isText rejects numbers and booleans, because other programs would not read them as text.
func (c *checker) isText(key, value *yamlnode.Node) bool {
	switch value.Type() {
	case "integer", "number", "boolean":
		return c.fail(value.Offset, "put it in quotes if it is meant as text", "%s: %s is %s, not text", key.Text, clip(value.Text), describeKind(value))
	}
	return true
}

// validate returns the fault that weir's own check finds in a limit outside a policy.
func (d *limitBuilder) validate() *fault {
	l := d.limit
	l.Name = onlyLimitName
	_, err := weir.Policy{Name: "policy", Limits: []weir.Limit{l}}.Compile()
	if err == nil {
		return nil
	}
	return d.faultOf(asPolicyError(err))
}

// asPolicyError returns the *weir.PolicyError in err, the only kind that Compile returns.
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
		return faultOfLength(d.at.window, "window", d.limit.Window)
	case "MinInterval":
		if d.limit.Kind == weir.Concurrency {
			return faultf(d.at.apart, "use at most "+FormatDuration(d.limit.MaxHold)+" apart, or a longer hold", "the time apart is longer than the hold")
		}
		return faultf(d.at.apart, "use at most "+FormatDuration(d.limit.Window)+" apart, or a longer window", "the time apart is longer than the window")
	case "Burst":
		return d.faultOfBurst()
	case "Zone":
		return faultf(d.at.zone, "install the tzdata of the system, or import time/tzdata in the program", "this machine has no data of time zone %s", clip(d.limit.Zone))
	case "Kind":
		return faultf(d.at.kind, "write denied: free", "denied: counted counts denied attempts, and those hold nothing of a concurrency limit")
	}
	problem, next, _ := strings.Cut(e.Problem, "; ")
	return faultf(d.at.name, next, "%s", problem)
}

// faultOfBurst returns the fault of a bucket that fills too slowly, or whose rate is not
// exact in engines with floating point.
func (d *limitBuilder) faultOfBurst() *fault {
	rate := formatNumber(d.limit.Max) + " per " + formatWindow(d.limit.Window)
	if most := d.limit.MaxBurst(); most > 0 {
		return faultf(d.at.burst, "use at most burst "+formatNumber(most)+", or a rounder rate", "a bucket of %s at %s cannot be counted exactly, or fills in more than 400 days", formatNumber(d.limit.Burst), rate)
	}
	return faultf(d.at.burst, "use a rounder rate or a shorter window", "a bucket at %s cannot be counted exactly, or fills in more than 400 days", rate)
}

// requestedUnits is the cost of a limit that is charged the units of the request.
const requestedUnits = "n"

// readCosts reads the units that an attempt takes of each limit.
func (c *checker) readCosts(d *policyBuilder) bool {
	costs := d.costs.value
	if costs == nil {
		return true
	}
	if costs.Kind != yamlnode.Map || costs.Len() == 0 {
		return c.fail(costs.Offset, "write {LIMIT: 1} with one of "+listed(d.limitNames()), "costs: has no limits with a number, or n")
	}
	ok := true
	for name, value := range costs.Pairs() {
		i, found := c.limitNamed(d, name)
		if !found {
			ok = false
			continue
		}
		if value.Kind == yamlnode.Scalar && value.Text == requestedUnits {
			continue
		}
		n, problem := parseNumber(value.Text)
		if value.Kind != yamlnode.Scalar || problem != "" || n == 0 || n > weir.MaxUnits {
			ok = c.fail(value.Offset, "use 1 or more for a fixed cost, or n for the units requested", "%s is not a cost", c.quote(value))
			continue
		}
		if d.policy.Mode == weir.Partial {
			ok = c.fail(value.Offset, "write batch: whole, or n", "batch: partial grants parts of a request, and a fixed cost has no parts")
			continue
		}
		d.policy.Limits[i].Cost = n
	}
	return ok
}
