package enforce

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// Item is one request of several, with its outcome.
type Item struct {
	Rule *Rule
	Request
	Outcome Outcome
	Err     error // as Rule.Decide returns it; an item that has one before is left alone
}

// call begins the outcome of an item and returns the call that decides it.
func (it *Item) call() weir.Call {
	it.Outcome = Outcome{}
	return it.Rule.begin(&it.Outcome, &it.Request)
}

// observeAll passes the calls of a batch to their handles. all is the error of all items, if
// there is one.
func observeAll(items []Item, all error, began time.Time) {
	took, index := time.Since(began), 0
	for i := range items {
		it := &items[i]
		if it.Rule == nil || it.Rule.Handle == nil {
			continue
		}
		c := Call{Item: *it, Began: began, Took: took, Index: index}
		if all != nil {
			c.Err = all
		}
		it.Rule.Handle.Observe(c)
		index++
	}
}

// DecideAll decides items in their order, each as [Rule.Decide] does: on memory with one
// reading of the clock, on Redis in one round trip. Policies with blocks take further steps,
// so their items are decided one by one. Policies share no histories, so those items may be
// decided before others.
func DecideAll(ctx context.Context, items []Item) {
	began := time.Now()
	var calls []weir.Call
	var of []*Item // the item of each call
	for i := range items {
		it := &items[i]
		if it.Err != nil {
			continue
		}
		if it.Rule.blocks != nil {
			it.Outcome, it.Err = it.Rule.decide(ctx, &it.Request)
			continue
		}
		calls, of = append(calls, it.call()), append(of, it)
	}
	weir.DecideAll(ctx, calls)
	for i, it := range of {
		c := &calls[i]
		it.Outcome.Decision, it.Err = c.Decision, c.Err
		if it.Err == nil {
			it.Rule.warn(&it.Outcome, c, it.Outcome.granted)
		}
		if it.Rule.Shadow {
			it.Err = it.Outcome.finish(&it.Request, it.Err)
		}
	}
	observeAll(items, nil, began)
}

// DecideTogether decides items as one attempt, as [weir.DecideTogether] does: all are granted
// and charged, or none. All policies need the same engine; of their modes for outages the
// strictest applies. An item of 0 units is a peek. An attempt under count: reported is rejected,
// because it is charged nothing.
//
// A running block of a key denies all items, in the same step. A denied item that names a
// limit which blocks begins its block, in a further step, as [Rule.Decide] does. Items that
// name none, and peeks, begin no block.
//
// A policy in shadow denies nothing: its items are no part of the attempt. Once the others
// are granted they are decided one by one, as [Rule.Decide] does. If the others are denied,
// these items are denied with them, and Applied.Would is that of a peek.
//
// After an error no item has an Outcome. That of bad input is a [*engine.CallError] with the
// index of the item.
func DecideTogether(ctx context.Context, items []Item) error {
	began := time.Now()
	err := decideTogether(ctx, items)
	observeAll(items, err, began)
	return err
}

func decideTogether(ctx context.Context, items []Item) error {
	t := together{items: items}
	err := t.prepare()
	if err == nil {
		err = t.decideCalls(ctx)
	}
	if err == nil {
		err = t.applyBlocks(ctx)
	}
	if err != nil {
		for i := range items {
			items[i].Outcome = Outcome{}
		}
		return err
	}
	whole := weir.Decision{Allowed: true}
	for i, at := range t.at {
		if it := &items[at]; !t.readsBlocks(i) {
			whole = it.Outcome.Decision
			it.Rule.warn(&it.Outcome, &t.calls[i], func(l *engine.Limit) int64 { return t.units(it, l) })
		}
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
	at    []int // the index of each call's item; the call behind that of an item with blocks reads them
}

// readsBlocks reports whether call i reads the blocks of an item.
func (t *together) readsBlocks(i int) bool { return i > 0 && t.at[i-1] == t.at[i] }

// prepare makes the calls. It checks the items of shadow policies too, because those are
// decided after the others are charged.
func (t *together) prepare() error {
	t.calls, t.at = make([]weir.Call, 0, len(t.items)), make([]int, 0, len(t.items))
	for i := range t.items {
		it := &t.items[i]
		if it.Err != nil {
			return &engine.CallError{Call: i, Err: it.Err}
		}
		r, c := it.Rule, it.call()
		if err := c.Check(); err != nil {
			return &engine.CallError{Call: i, Err: err}
		}
		if r.Shadow {
			continue
		}
		if r.Reported && it.N > 0 {
			return &engine.CallError{Call: i, Err: engine.Input("request", "policy %q counts reported units, so an attempt charges nothing; decide it by itself", r.Name)}
		}
		t.calls, t.at = append(t.calls, c), append(t.at, i)
		if b := r.blocks; b != nil {
			t.calls[len(t.calls)-1].Request.States = statesFor(c.Request.States, c.Limiter)
			t.calls, t.at = append(t.calls, weir.Call{Limiter: b.combined.Limiter, Key: b.combined.keyOf(&c.Key),
				Op: engine.Peek, Request: weir.Request{At: it.At, States: statesFor(nil, b.combined.Limiter)}}), append(t.at, i)
		}
	}
	return nil
}

// statesFor returns states, or room for those of the limiter if there is none.
func statesFor(states []weir.LimitState, l *weir.Limiter) []weir.LimitState {
	if states == nil {
		states = make([]weir.LimitState, len(l.Compiled().Limits))
	}
	return states
}

// decideCalls decides the calls.
func (t *together) decideCalls(ctx context.Context) error {
	err := weir.DecideTogether(ctx, t.calls)
	if of, ok := errors.AsType[*engine.CallError](err); ok {
		name := t.items[t.at[of.Call]].Rule.Name
		if wrong, ok := errors.AsType[*engine.InputError](of.Err); ok && t.readsBlocks(of.Call) {
			of.Err = engine.Input(wrong.Field, "for the blocks of policy %q: %s; decided by itself, the policy needs no common slot", name, wrong.Problem)
		}
		return &engine.CallError{Call: t.at[of.Call], Err: of.Err}
	}
	return err
}

// runningBlock returns the block that a call has read.
func runningBlock(c *weir.Call) (running block) {
	longest := time.Duration(0)
	for _, s := range c.Request.States {
		if s.MinIntervalAfter > longest {
			longest = s.MinIntervalAfter
			running = block{s.Name, c.Decision.At.Add(longest)}
		}
	}
	return running
}

// applyBlocks sets the decisions of the items, with the blocks that run or begin. A denial
// that begins blocks moves to the instant of the last of them.
func (t *together) applyBlocks(ctx context.Context) error {
	blocks, last := make([]block, len(t.calls)), time.Time{}
	for i := range t.calls {
		if !t.readsBlocks(i) {
			continue
		}
		if blocks[i] = runningBlock(&t.calls[i]); !blocks[i].until.IsZero() {
			continue
		}
		begun, at, err := t.beginBlock(ctx, i-1)
		if err != nil {
			return err
		}
		if blocks[i] = begun; at.After(last) {
			last = at
		}
	}
	var retry time.Duration
	for i, at := range t.at {
		o := &t.items[at].Outcome
		if !t.readsBlocks(i) {
			o.Decision = t.calls[i].Decision
			shiftTo(last, &o.Decision, t.calls[i].Request.States)
		} else {
			o.applyBlock(&o.Decision, t.calls[i-1].Request.States, blocks[i])
		}
		retry = max(o.Decision.RetryAfter, retry)
	}
	for _, at := range t.at {
		t.items[at].Outcome.Decision.RetryAfter = retry
	}
	return nil
}

// beginBlock begins a block of the limit that denied call i, if it blocks and the call is no
// peek.
func (t *together) beginBlock(ctx context.Context, i int) (begun block, at time.Time, err error) {
	c, it := &t.calls[i], &t.items[t.at[i]]
	limit := c.Limiter.Compiled().LimitNamed(c.Decision.Limit)
	if c.Decision.Degraded || it.N == 0 || limit < 0 || it.Rule.blocks.single[limit] == nil {
		return begun, at, nil
	}
	return it.Rule.blocks.begin(ctx, &it.Request, limit, &c.Decision)
}

// units returns the units that all calls took of an item's limit, from the same history.
func (t *together) units(it *Item, l *engine.Limit) (units int64) {
	for i, at := range t.at {
		if t.readsBlocks(i) {
			continue
		}
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
		it.Outcome, it.Err = it.Rule.decide(ctx, &it.Request)
		return
	}
	peek := it.Request
	peek.Op = engine.Peek
	it.Outcome, it.Err = it.Rule.decide(ctx, &peek)
	d := &it.Outcome.Decision
	d.Allowed, d.Granted, d.RetryAfter = false, 0, whole.RetryAfter
}
