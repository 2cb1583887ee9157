package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// attempt returns a call of n units for a key.
func attempt(rules *Compiled, n int64, values ...string) Call {
	return Call{Rules: rules, Key: K(values...), N: n}
}

func TestTogetherErrors(t *testing.T) {
	user, hour := byUser("p", 5), rolling("all", 5)
	other := byUser("p", 6) // the same histories, other numbers
	slots := Compile("p", AllOrNothing, user.Dimensions, []Limit{{Name: "at once", Kind: KindConcurrency, Max: 1, Window: 60e6, By: []int{0}}})
	many := make([]Call, 0, 17)
	for i := range 17 {
		many = append(many, attempt(user, 1, fmt.Sprint(i)))
	}
	limits := make([]Limit, 9)
	for i := range limits {
		limits[i] = rolling(fmt.Sprint(i), 5)
	}
	wide := func(name string) Call {
		own := append([]Limit{}, limits...)
		return attempt(Compile(name, AllOrNothing, nil, own), 1)
	}
	with := func(change func(*Call)) []Call {
		calls := []Call{attempt(user, 1, "ann"), attempt(user, 1, "bob")}
		change(&calls[1])
		return calls
	}
	rejected := Input("units", "rejected before")
	for name, c := range map[string]struct {
		calls []Call
		call  int
		field string
		text  string
	}{
		"an error":        {with(func(c *Call) { c.Err = rejected }), 1, "units", "rejected before"},
		"no rules":        {with(func(c *Call) { c.Rules = nil }), 1, "request", "it has no rules"},
		"few units":       {with(func(c *Call) { c.N = -1 }), 1, "units", "-1; use 0 to"},
		"many units":      {with(func(c *Call) { c.N = MaxUnits + 1 }), 1, "units", "use 0 to"},
		"an id":           {with(func(c *Call) { c.ID = "x" }), 1, "request", "have no idempotency key"},
		"a record":        {with(func(c *Call) { c.Op = Record }), 1, "request", "are attempts"},
		"a refund":        {with(func(c *Call) { c.Op = Refund }), 1, "request", "are attempts"},
		"a record of 0":   {with(func(c *Call) { c.Op, c.N = Record, 0 }), 1, "request", "are attempts"},
		"a peek of units": {with(func(c *Call) { c.Op = Peek }), 1, "request", "peeks of 0 units"},
		"concurrency":     {with(func(c *Call) { c.Rules = slots }), 1, "request", `the concurrency limit "at once"`},
		"a peek of slots": {with(func(c *Call) { c.Rules, c.N = slots, 0 }), 1, "request", `the concurrency limit "at once"`},
		"another instant": {with(func(c *Call) { c.At, c.Given = 5, true }), 1, "request", "another instant"},
		"CountDenied":     {with(func(c *Call) { c.Rules = Compile("p", CountDenied, []string{"user"}, byUser("p", 1).Limits) }), 1, "request", "counts denied attempts"},
		"states":          {with(func(c *Call) { c.States = make([]State, 2) }), 1, "request", "room for 2 states"},
		"a key":           {with(func(c *Call) { c.Key = K() }), 1, "key", "this key has 0 values"},
		"other numbers":   {[]Call{attempt(user, 1, "ann"), attempt(other, 1, "ann")}, 1, "request", "other numbers"},
		"the sum":         {[]Call{attempt(user, MaxUnits, "ann"), attempt(user, 1, "ann")}, 1, "units", "with an earlier call"},
		"many values":     {many, 16, "request", "17 different values, and at most 16"},
		"many limits":     {[]Call{attempt(Compile("x", AllOrNothing, nil, []Limit{hour}), 1), wide("y"), wide("z")}, 2, "request", "19 limits, and at most 16"},
	} {
		e := &recorder{}
		for i := range c.calls {
			c.calls[i].Result = Result{Allowed: true}
		}
		err := Together(t.Context(), e, c.calls)
		var of *CallError
		if !errors.As(err, &of) || of.Call != c.call || !errors.Is(err, &InputError{Field: c.field}) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want call %d: %s: …%s…", name, err, c.call, c.field, c.text)
		}
		if !strings.HasPrefix(fmt.Sprint(err), fmt.Sprintf("call %d: ", c.call)) {
			t.Errorf("%s: the error does not begin with the index: %v", name, err)
		}
		for i := range c.calls {
			assert.Equal(t, c.calls[i].Result, Result{}, "%s: the result of call %d after an error", name, i)
		}
		assert.Equal(t, len(e.calls), 0, "%s: calls of the engine", name)
	}
}

// TestJoinedRulesAreKept: calls of the same rules, units and equal values have the same
// joined rules, so an engine can keep its form of them.
func TestJoinedRulesAreKept(t *testing.T) {
	a, b := byUser("a", 5), byUser("b", 5)
	rules := func(calls ...Call) *Compiled {
		t.Helper()
		e := &recorder{}
		must.Do(t, Together(t.Context(), e, calls))
		return e.calls[0].Rules
	}
	first := rules(attempt(a, 1, "ann"), attempt(b, 1, "bob"))
	if first != rules(attempt(a, 1, "eve"), attempt(b, 1, "joe")) {
		t.Error("other values have other rules")
	}
	for name, other := range map[string]*Compiled{
		"units":       rules(attempt(a, 1, "ann"), attempt(b, 2, "bob")),
		"the order":   rules(attempt(b, 1, "ann"), attempt(a, 1, "bob")),
		"one value":   rules(attempt(a, 1, "ann"), attempt(b, 1, "ann")),
		"other rules": rules(attempt(a, 1, "ann"), attempt(byUser("b", 5), 1, "bob")),
	} {
		if other == first {
			t.Errorf("%s: the rules are those of other calls", name)
		}
	}
}

// TestJoinedRulesAreBounded: calls with ever new units do not fill the memory.
func TestJoinedRulesAreBounded(t *testing.T) {
	a := byUser("a", 5)
	for n := range int64(3 * maxJoins) {
		must.Do(t, Together(t.Context(), &recorder{}, []Call{attempt(a, 1+n, "ann")}))
		if kept := len(a.joins); kept > maxJoins {
			t.Fatalf("%d joined rules are kept, want at most %d", kept, maxJoins)
		}
	}
}

// TestPeeksTogether: calls of no unit are one of no unit, which changes nothing.
func TestPeeksTogether(t *testing.T) {
	e := &recorder{}
	if err := Together(t.Context(), e, []Call{attempt(byUser("a", 5), 0, "ann"), attempt(byUser("b", 5), 0, "ann")}); err != nil || e.calls[0].N != 0 {
		t.Errorf("the engine got %d units, %v", e.calls[0].N, err)
	}
}
