package weir

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/window"
)

// CallError is bad input in one of several calls that are decided together. Nothing has
// changed.
type CallError struct {
	Call int // its index
	Err  error
}

// Error gives the index before the reason.
func (e *CallError) Error() string { return fmt.Sprintf("call %d: %v", e.Call, e.Err) }

// Unwrap returns the reason.
func (e *CallError) Unwrap() error { return e.Err }

// planPart is one of several calls that are decided together, as a part of their plan.
type planPart struct {
	plan  *Plan
	key   []int // for each value of the call's key, its index in the key of all
	units int64
}

// DecideTogether decides calls of [Limiter.Call] on an engine as one attempt (R7): at one
// instant all of their limits grant, or none is charged. So a transfer counts for both
// accounts or for neither. The calls may be of several policies. Units of several calls for
// one history are one entry, and its limit is charged their sum.
//
// It sets the Decision of each call. Allowed, At and RetryAfter are those of the whole.
// Remaining, ResetAfter and Request.States are those of the call's own limits. Limit is, of
// the call's own limits that denied, the one with the longest wait. It is "" in a call that
// is denied because of the others alone.
//
// The calls are attempts of 1 unit or more, without an ID and at one instant. A policy in
// mode Partial is decided all or nothing, as by [Limiter.Wait]. A policy in mode CountDenied
// is rejected, because its denials change histories. The calls have at most MaxLimits
// histories and MaxDimensions different values. Calls with different limits for one history
// are rejected, and on a Redis Cluster histories in different slots.
//
// After an error every Decision is the zero Decision. That of bad input is a [*CallError]
// (R14).
func DecideTogether(ctx context.Context, e Engine, calls []Call) error {
	for i := range calls {
		calls[i].Decision = Decision{}
		clear(calls[i].Request.States)
	}
	if len(calls) == 0 {
		return nil
	}
	plan, key, places, err := join(calls)
	if err != nil {
		return err
	}
	states := make([]LimitState, len(plan.limits))
	d, err := e.Decide(ctx, plan, key, Request{N: 1, At: calls[0].Request.At, States: states})
	if err != nil {
		return err
	}
	for i := range calls {
		calls[i].answer(&d, plan, places[i], states)
	}
	return nil
}

// DecideTogether is [DecideTogether] for calls of the limiter's policy, such as a transfer
// between two keys. It sets Plan and Err of each call.
func (l *Limiter) DecideTogether(ctx context.Context, calls []Call) error {
	for i := range calls {
		c := &calls[i]
		c.Err = l.prepare(c)
	}
	if l == nil || l.plan == nil {
		return errZeroLimiter
	}
	return DecideTogether(ctx, l.engine, calls)
}

// join returns the plan that decides calls together, its key, and for each call the places
// of its limits. The plan has a limit for each history, with a cost of all units for it.
func join(calls []Call) (p *Plan, k Key, places [][]int, err error) {
	p = &Plan{}
	var policies []string
	for i := range calls {
		c := &calls[i]
		if err := c.checkTogether(calls[0].Request.moment()); err != nil {
			return nil, k, nil, &CallError{i, err}
		}
		part := planPart{c.Plan, p.joinKey(&k, c), c.Request.N}
		of, err := p.joinLimits(&part, i)
		if err != nil {
			return nil, k, nil, &CallError{i, err}
		}
		p.parts, places = append(p.parts, part), append(places, of)
		if !slices.Contains(policies, c.Plan.Name()) {
			policies = append(policies, c.Plan.Name())
		}
	}
	p.policy.Name = strings.Join(policies, "+")
	p.split()
	return p, k, places, nil
}

// checkTogether returns the reason why the call cannot be decided with others at an instant.
func (c *Call) checkTogether(at moment) error {
	r := &c.Request
	switch {
	case c.Err != nil:
		return c.Err
	case c.Plan == nil:
		return fmt.Errorf("%w: it has no plan; make it with Limiter.Call", ErrRequest)
	case uint64(r.N) > uint64(MaxUnits):
		return fmt.Errorf("%w: %d; use 1 to %d", ErrUnits, r.N, MaxUnits)
	case r.Op != OpAttempt || r.N == 0:
		return fmt.Errorf("%w: calls that are decided together are attempts of 1 unit or more; make a peek or a record by itself", ErrRequest)
	case r.ID != "":
		return fmt.Errorf("%w: calls that are decided together have no idempotency key; leave it out, or decide the call by itself", ErrRequest)
	case r.moment() != at:
		return fmt.Errorf("%w: it has another instant than the first call, and calls are decided together at one; use the same for all, or none", ErrRequest)
	case c.Plan.Mode() == CountDenied:
		return fmt.Errorf("%w: policy %q counts denied attempts, and a denial of calls together changes nothing; use another Mode, or decide the call by itself", ErrRequest, c.Plan.Name())
	}
	if err := c.Plan.checkKey(&c.Key); err != nil {
		return err
	}
	return r.check(c.Plan)
}

// joinKey adds the values of the call's key to k, those of a dimension and value once, and
// returns their indices.
func (p *Plan) joinKey(k *Key, c *Call) (indices []int) {
	for i, name := range c.Plan.dimensions {
		value, at := c.Key.value(i), 0
		for at < k.n && (p.dimensions[at] != name || k.value(at) != value) {
			at++
		}
		if at == k.n {
			p.dimensions = append(p.dimensions, name)
			k.push(value)
		}
		indices = append(indices, at)
	}
	return indices
}

// joinLimits adds the limits of a call to p, and returns their places. A limit for a history
// that p has is charged there.
func (p *Plan) joinLimits(part *planPart, call int) (places []int, err error) {
	for i, l := range part.plan.limits {
		described, units := part.plan.policy.Limits[i], l.Units(part.units)
		l.By, l.Shared, l.Call = part.indices(l.By), part.indices(l.Shared), call
		at := slices.IndexFunc(p.limits, func(o PlanLimit) bool {
			return o.Policy == l.Policy && o.Name == l.Name && o.Kind == l.Kind && slices.Equal(o.By, l.By)
		})
		if at >= 0 {
			other := &p.limits[at]
			first := &p.parts[other.Call]
			if first.plan != part.plan && !reflect.DeepEqual(first.plan.policy.Limits[first.plan.LimitNamed(l.Name)], described) {
				return nil, fmt.Errorf("%w: limit %q of policy %q has the history of an earlier call and other numbers; decide the calls by the same numbers", ErrRequest, l.Name, l.Policy)
			}
			if units+other.Cost > MaxUnits {
				return nil, fmt.Errorf("%w: with an earlier call it takes more than %d of limit %q; use fewer", ErrUnits, MaxUnits, l.Name)
			}
			other.Cost += units
			p.policy.Limits[at].Cost = other.Cost
			places = append(places, at)
			continue
		}
		l.Cost, described.Cost = units, units
		places = append(places, len(p.limits))
		p.limits, p.policy.Limits = append(p.limits, l), append(p.policy.Limits, described)
	}
	switch {
	case len(p.limits) > MaxLimits:
		return nil, fmt.Errorf("%w: the calls up to it have %d limits, and at most %d are decided together; use fewer calls", ErrRequest, len(p.limits), MaxLimits)
	case len(p.dimensions) > MaxDimensions:
		return nil, fmt.Errorf("%w: the calls up to it have %d different values, and at most %d are decided together; use fewer calls", ErrRequest, len(p.dimensions), MaxDimensions)
	}
	return places, nil
}

// indices returns the indices of dimensions of the call in the key of all calls.
func (part *planPart) indices(dims []int) (indices []int) {
	for _, dim := range dims {
		indices = append(indices, part.key[dim])
	}
	return indices
}

// keyOf returns the key of the call, of the key of all.
func (part *planPart) keyOf(k *Key) (own Key) {
	for _, i := range part.key {
		own.push(k.value(i))
	}
	return own
}

// Together reports whether the plan decides several calls together ([DecideTogether]). Its
// limits may be of several policies, and dimensions may have a name in common.
func (p *Plan) Together() bool { return p.parts != nil }

// answer sets the decision of the call from that of all calls. Its own limits are at some
// places of the plan. An engine that does not know the states leaves them without a name.
func (c *Call) answer(all *Decision, p *Plan, places []int, states []LimitState) {
	d := *all
	d.Limit, d.Granted = "", 0
	if d.Allowed {
		d.Granted = c.Request.N
	}
	longest := int64(0)
	for i, at := range places {
		l, s := &p.limits[at], &states[at]
		wait := int64(s.RetryAfter)
		if l.Cost > l.Capacity {
			wait = window.Never // also without a state
		}
		if !d.Allowed && window.Longer(wait, longest) {
			longest, d.Limit = wait, l.Name
		}
		if c.Request.States != nil {
			c.Request.States[i] = *s
		}
		if s.Name == "" {
			continue
		}
		if i == 0 {
			d.Remaining, d.ResetAfter = s.Remaining, s.ResetAfter
		}
		d.Remaining, d.ResetAfter = min(d.Remaining, s.Remaining), max(d.ResetAfter, s.ResetAfter)
	}
	c.Decision = d
}
