package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/keyenc"
)

// CallError is bad input in one of several calls that are decided together. Nothing has
// changed. An engine that cannot decide joined rules names the call by Limit.Call.
type CallError struct {
	Call int   // index of the call in the calls of Together, from 0
	Err  error // the reason
}

// Error gives the index before the reason.
func (e *CallError) Error() string { return fmt.Sprintf("call %d: %v", e.Call, e.Err) }

// Unwrap returns the reason.
func (e *CallError) Unwrap() error { return e.Err }

// Together decides calls on an engine as one attempt (R7): at one instant all of their limits
// grant, or none is charged. It sets the Result and the States of each call.
//
// Allowed, At and RetryAfter are those of the whole. Remaining, ResetAfter, Blocked and States are
// those of the call's own limits. Limit is, of the call's own limits that denied, the one
// with the longest wait. It is "" in a call that is denied because of the others alone.
//
// The error is an error of the engine, or a [*CallError] for a call that cannot be decided
// with the others. After an error every Result is the zero Result.
func Together(ctx context.Context, e Engine, calls []Call) error {
	for i := range calls {
		calls[i].Fail(calls[i].Err)
	}
	if len(calls) == 0 {
		return nil
	}
	j, key, err := join(calls)
	if err != nil {
		return err
	}
	whole := Call{
		Rules:  j.rules,
		Key:    key,
		At:     calls[0].At,
		Given:  calls[0].Given,
		Outage: outage(calls),
	}
	whole.States = make([]State, len(j.rules.Limits))
	if slices.ContainsFunc(calls, func(c Call) bool { return c.N > 0 }) {
		whole.N = 1 // otherwise the whole is a peek (R4)
	}
	one := []Call{whole}
	if e.Do(ctx, one); one[0].Err != nil {
		return one[0].Err
	}
	for i := range calls {
		j.answer(&calls[i], i, &one[0].Result, whole.States)
	}
	return nil
}

// outage returns the strictest answer of the calls while the store is away. What OutageDefault
// means is known to the engine alone: never less strict than OutageAllow, and it may be less or
// more strict than OutageShare.
func outage(calls []Call) Outage {
	strictest, ofEngine := OutageAllow, false
	for i := range calls {
		o := calls[i].Outage
		ofEngine = ofEngine || o == OutageDefault
		if o.strength() > strictest.strength() {
			strictest = o
		}
	}
	switch {
	case ofEngine && strictest == OutageAllow:
		return OutageDefault
	case ofEngine && strictest == OutageShare:
		return OutageShareOrStricter
	}
	return strictest
}

// strength orders the modes; an unknown one is as strict as Deny.
func (o Outage) strength() int {
	switch o {
	case OutageDefault:
		return 0
	case OutageAllow:
		return 1
	case OutageShare:
		return 2
	case OutageShareOrStricter:
		return 3
	}
	return 4
}

// joined is the rules of calls that are decided together. They have one limit for each
// history. Its Cost is the sum of the units that the calls take of it, or -1 if all are peeks.
type joined struct {
	rules  *Compiled
	places [][]int // for each call the indices of its limits in rules
}

// maxJoins bounds the joined rules of one cache. Calls with ever new numbers of units need
// ever new rules. At the bound all are dropped.
const maxJoins = 32

// join returns the rules that decide calls together, and their key.
func join(calls []Call) (*joined, Key, error) {
	var key Key
	var dimensions []string
	var indices [][]int // for each call, and each value of its key, the index in the joined key
	var room [256]byte
	name := room[:0]
	for i := range calls {
		c := &calls[i]
		if err := c.checkTogether(&calls[0]); err != nil {
			return nil, key, &CallError{i, err}
		}
		own := c.joinKey(&key, &dimensions)
		if len(dimensions) > keyenc.MaxValues {
			err := Input("request", "the calls up to it have %d different values, "+
				"and at most %d are decided together; use fewer calls",
				len(dimensions), keyenc.MaxValues)
			return nil, key, &CallError{i, err}
		}
		indices = append(indices, own)
		name = binary.AppendUvarint(name, c.Rules.number)
		name = binary.AppendVarint(name, c.N)
		for _, at := range own {
			name = append(name, byte(at))
		}
	}
	first := calls[0].Rules
	// Rules that were made by hand have no number, so the name would not distinguish them.
	if slices.ContainsFunc(calls, func(c Call) bool { return c.Rules.number == 0 }) {
		j, err := joinRules(calls, dimensions, indices)
		return j, key, err
	}
	first.joining.Lock()
	defer first.joining.Unlock()
	if j := first.joins[string(name)]; j != nil {
		return j, key, nil
	}
	j, err := joinRules(calls, dimensions, indices)
	if err != nil {
		return nil, key, err
	}
	if first.joins == nil || len(first.joins) == maxJoins {
		first.joins = map[string]*joined{}
	}
	first.joins[string(name)] = j
	return j, key, nil
}

// checkTogether returns the reason why the call cannot be decided with others.
func (c *Call) checkTogether(first *Call) error {
	switch {
	case c.Err != nil:
		return c.Err
	case c.Rules == nil:
		return Input("request", "it has no rules; set Rules to those of a policy")
	case c.N > MaxUnits || c.N < 0:
		return Input("units", "%d; use 0 to %d", c.N, MaxUnits)
	case c.Op > Peek || c.Op == Peek && c.N > 0:
		return Input("request", "calls that are decided together are attempts, "+
			"or peeks of 0 units; make any other call by itself")
	case c.ID != "":
		return Input("request", "calls that are decided together have no idempotency key; "+
			"leave it out, or decide the call by itself")
	case c.Given != first.Given || c.Given && c.At != first.At:
		return Input("request", "it has another instant than the first call, "+
			"and calls are decided together at one; use the same for all, or none")
	case c.Rules.Mode == CountDenied:
		return Input("request",
			"policy %q counts denied attempts, and a denial of calls together changes nothing; "+
				"use another Mode, or decide the call by itself", c.Rules.Name)
	case c.TTL != 0:
		return Input("request", "calls that are decided together open no reservation; "+
			"reserve by itself, or leave the time to live out")
	case c.MaxWait != 0:
		return Input("wait", "calls that are decided together cannot wait; "+
			"leave MaxWait out, or decide the call by itself")
	case slices.ContainsFunc(c.Rules.Limits, isHold):
		first := c.Rules.Limits[slices.IndexFunc(c.Rules.Limits, isHold)]
		return Input("request", "policy %q has the concurrency limit %q, and nothing "+
			"would end a hold of calls together; reserve it by itself", c.Rules.Name, first.Name)
	case c.Histories != nil:
		return Input("request", "calls that are decided together show no histories; "+
			"leave Histories nil, or make the call by itself")
	case c.States != nil && len(c.States) != len(c.Rules.Limits):
		return Input("request", "room for %d states, and policy %q has %d limits",
			len(c.States), c.Rules.Name, len(c.Rules.Limits))
	}
	return c.Rules.CheckKey(&c.Key)
}

// joinKey adds the values of the call's key to k and returns their indices there. A value
// that k already has in the same dimension is not added again.
func (c *Call) joinKey(k *Key, dimensions *[]string) (indices []int) {
	for i, name := range c.Rules.Dimensions {
		value, at := c.Key.Value(i), 0
		for at < k.Len() && ((*dimensions)[at] != name || k.Value(at) != value) {
			at++
		}
		if at == k.Len() {
			*dimensions = append(*dimensions, name)
			k.Append(value)
		}
		indices = append(indices, at)
	}
	return indices
}

// joinRules makes the joined rules of calls.
func joinRules(calls []Call, dimensions []string, indices [][]int) (*joined, error) {
	rules := &Compiled{Dimensions: dimensions, Joined: true}
	j := &joined{rules: rules}
	var policies []string
	for i := range calls {
		places, err := rules.joinLimits(calls, i, indices[i])
		if err != nil {
			return nil, &CallError{i, err}
		}
		j.places = append(j.places, places)
		if calls[i].N == 0 {
			places = nil
		}
		rules.Calls = append(rules.Calls, places)
		if name := calls[i].Rules.Name; !slices.Contains(policies, name) {
			policies = append(policies, name)
		}
	}
	rules.Name = strings.Join(policies, "+")
	rules.finish()
	return j, nil
}

// joinLimits adds the limits of call i and returns their indices. key has the indices of the
// call's values in the joined key. If an earlier call has a limit for the same history, the
// units are added to that limit's Cost.
func (c *Compiled) joinLimits(calls []Call, i int, key []int) (places []int, err error) {
	own := calls[i].Rules
	for _, l := range own.Limits {
		original := l
		units := l.Units(calls[i].N)
		l.By = pick(key, l.By)
		l.Shared = pick(key, l.Shared)
		l.Call = i
		l.Cost = charge(units)
		at := slices.IndexFunc(c.Limits, func(o Limit) bool { return o.sharesHistory(&l) })
		if at < 0 {
			places = append(places, len(c.Limits))
			c.Limits = append(c.Limits, l)
			continue
		}
		first := calls[c.Limits[at].Call].Rules
		original.By, original.Shared = l.By, l.Shared
		earlier := first.Limits[first.LimitNamed(l.Name)]
		earlier.By, earlier.Shared = c.Limits[at].By, c.Limits[at].Shared
		if first != own && !reflect.DeepEqual(earlier, original) {
			return nil, Input("request", "limit %q of policy %q has the history of an earlier call "+
				"and other numbers; decide the calls by the same numbers", l.Name, l.Policy)
		}
		sum := max(0, c.Limits[at].Cost) + units
		if c.Limits[at].Cost = charge(sum); sum > MaxUnits {
			return nil, Input("units", "with an earlier call it takes more than %d of limit %q; "+
				"use fewer", MaxUnits, l.Name)
		}
		places = append(places, at)
	}
	if len(c.Limits) > MaxLimits {
		return nil, Input("request", "the calls up to it have %d limits, "+
			"and at most %d are decided together; use fewer calls", len(c.Limits), MaxLimits)
	}
	return places, nil
}

// sharesHistory reports whether two limits of joined rules have one history (R12).
func (l *Limit) sharesHistory(o *Limit) bool {
	return l.Policy == o.Policy && l.Name == o.Name && l.Kind == o.Kind && slices.Equal(l.By, o.By)
}

// charge returns the Cost that charges a limit so many units.
func charge(units int64) int64 {
	if units == 0 {
		return -1
	}
	return units
}

// pick returns the elements of all at the given indices.
func pick(all, places []int) (picked []int) {
	for _, at := range places {
		picked = append(picked, all[at])
	}
	return picked
}

// answer sets the result of call i from that of all calls. An engine that does not know the
// states leaves them without a name.
func (j *joined) answer(c *Call, i int, all *Result, states []State) {
	r := *all
	r.Limit = ""
	r.Granted = 0
	r.Blocked = 0
	if r.Allowed {
		r.Granted = c.N
	}
	longest, known := time.Duration(0), false
	for place, at := range j.places[i] {
		l, s := &j.rules.Limits[at], &states[at]
		wait := s.RetryAfter
		if l.Cost > l.Capacity {
			wait = Never // also without a state
		}
		if !r.Allowed && wait > longest {
			longest, r.Limit = wait, l.Name
		}
		if c.States != nil {
			c.States[place] = *s
		}
		if s.Name == "" {
			continue
		}
		if !known {
			r.Remaining = s.Remaining
			r.ResetAfter = s.ResetAfter
			known = true
		}
		r.Remaining = min(r.Remaining, s.Remaining)
		r.ResetAfter = max(r.ResetAfter, s.ResetAfter)
		r.Blocked = max(r.Blocked, s.Blocked)
	}
	c.Result = r
}
