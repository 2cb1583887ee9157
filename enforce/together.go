package enforce

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// DecideTogether decides items as one attempt, as [weir.DecideTogether] does: all are granted
// and charged, or none. All policies need the same engine; of their modes for
// outages the strictest applies. A policy with blocks is rejected, because blocks take steps of their own, and so is one of
// count: reported, because an attempt charges it nothing.
//
// A policy in shadow denies nothing: its items are no part of the attempt. Once the others
// are granted they are decided one by one, as [Rule.Decide] does. If the others are denied,
// these items are denied with them, and Applied.Would is that of a peek.
//
// After an error no item has an Outcome. That of bad input is a [*weir.CallError] with the
// index of the item.
func DecideTogether(ctx context.Context, items []Item) error {
	t := together{items: items}
	err := t.prepare()
	if err == nil {
		err = t.decideCalls(ctx)
	}
	if err != nil {
		for i := range items {
			items[i].Outcome = Outcome{}
		}
		return err
	}
	whole := weir.Decision{Allowed: true}
	for i, at := range t.at {
		it := &items[at]
		c := &t.calls[i]
		whole, it.Outcome.Decision = c.Decision, c.Decision
		it.Rule.warn(&it.Outcome, weir.OpAttempt, it.N, c.Request.States, func(l *engine.Limit) int64 { return t.units(it, l) })
	}
	for i := range items {
		if it := &items[i]; it.Rule.Shadow {
			it.decideShadow(ctx, &whole)
		}
	}
	return nil
}

// together is items with the calls that decide them.
type together struct {
	items []Item
	calls []weir.Call
	at    []int // the index of each call's item
}

// prepare makes the calls. It checks the items of shadow policies too, because those are
// decided after the others are charged.
func (t *together) prepare() error {
	for i := range t.items {
		it := &t.items[i]
		it.Outcome = Outcome{}
		if it.Err != nil {
			return &weir.CallError{Call: i, Err: it.Err}
		}
		r := it.Rule
		op := r.begin(&it.Outcome, &it.Request)
		a := r.withStates(op, &it.Request)
		c := weir.Call{Limiter: it.Outcome.Limiter, Key: a.Key, Request: weir.Request{Op: op, N: a.N, At: a.At, States: a.States, ID: a.ID}}
		if err := c.Check(); err != nil {
			return &weir.CallError{Call: i, Err: err}
		}
		if r.Shadow {
			continue
		}
		if problem := t.problem(r); problem != "" {
			return &weir.CallError{Call: i, Err: engine.Input("request", "policy %q %s", r.Name, problem)}
		}
		t.calls, t.at = append(t.calls, c), append(t.at, i)
	}
	return nil
}

// problem returns the reason why a policy cannot be decided with the ones before, or "".
func (t *together) problem(r *Rule) string {
	switch {
	case r.blocks != nil:
		return "blocks keys, which takes steps of its own; decide it by itself"
	case r.Reported:
		return "counts reported units, so an attempt charges nothing; decide it by itself"
	case len(t.at) > 0 && t.items[t.at[0]].Rule.engine != r.engine:
		return fmt.Sprintf("has another store than policy %q; give both the same", t.items[t.at[0]].Rule.Name)
	}
	return ""
}

// decideCalls decides the calls.
func (t *together) decideCalls(ctx context.Context) error {
	err := weir.DecideTogether(ctx, t.calls)
	if of := new(weir.CallError); errors.As(err, &of) {
		return &weir.CallError{Call: t.at[of.Call], Err: of.Err}
	}
	return err
}

// units returns the units that all calls took of an item's limit, from the same history.
func (t *together) units(it *Item, l *engine.Limit) (units int64) {
	for _, at := range t.at {
		other := &t.items[at]
		differs := func(i int) bool { return other.Key.Value(i) != it.Key.Value(i) }
		if other.Rule == it.Rule && !slices.ContainsFunc(l.By, differs) {
			units += l.Units(other.N)
		}
	}
	return units
}

// decideShadow decides an item of a shadow policy after the others.
func (it *Item) decideShadow(ctx context.Context, whole *weir.Decision) {
	if whole.Allowed {
		it.Outcome, it.Err = it.Rule.Decide(ctx, &it.Request)
		return
	}
	peek := it.Request
	peek.Op = weir.OpPeek
	it.Outcome, it.Err = it.Rule.Decide(ctx, &peek)
	d := &it.Outcome.Decision
	d.Allowed, d.Granted, d.RetryAfter = false, 0, whole.RetryAfter
}
