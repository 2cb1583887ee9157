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
func (it *Item) call() (c weir.Call) {
	it.Outcome = Outcome{}
	it.Rule.begin(&it.Outcome, &it.Request, &c)
	return c
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
// reading of the clock, on Redis in one round trip. All policies need the same engine. An item with
// Reserve needs a TTL, and its Outcome has no Reservation.
func DecideAll(ctx context.Context, items []Item) {
	began := time.Now()
	made := make([]weir.Call, len(items))
	calls := make([]engine.Call, len(items))
	opened := make([]engine.Reservation, len(items))
	var e engine.Engine // the engine of all items
	for i := range items {
		it := &items[i]
		if it.Err == nil {
			made[i] = it.call()
			it.Err = it.check(&made[i])
		}
		if calls[i].Err = it.Err; it.Err == nil {
			calls[i] = it.Rule.engineCall(&it.Request, &made[i], &opened[i])
			e = it.Rule.engine
		}
	}
	if e != nil {
		e.Do(ctx, calls)
	}
	for i := range items {
		it := &items[i]
		if it.Err != nil {
			continue
		}
		if it.Err = calls[i].Err; it.Err == nil {
			it.Outcome.Decision = decisionOf(&calls[i])
		}
		it.Outcome.setReserved(&calls[i], &opened[i])
		it.Err = it.Rule.finish(&it.Outcome, &it.Request, &made[i], it.Err)
	}
	observeAll(items, nil, began)
}

// check returns the error of bad input in an item and its call.
func (it *Item) check(c *weir.Call) error {
	if it.Reserve && it.Rule.Reported {
		return it.Rule.errReported()
	}
	if err := it.Rule.checkWait(&it.Request); err != nil {
		return err
	}
	return c.Check()
}

// DecideTogether decides items as one attempt, as [weir.DecideTogether] does: all are granted
// and charged, or none. All policies need the same engine; of their modes for outages the
// strictest applies. An item of 0 units is a peek. An attempt under count: reported is rejected,
// because it is charged nothing.
//
// A running block of a key denies all items. A denied item that names a limit which blocks begins
// its block, in the same step (R20). Items that name none, and peeks, begin no block.
//
// A policy in shadow denies nothing: its items are no part of the attempt. Once the others
// are granted they are decided one by one, as [Rule.Decide] does. If the others are denied,
// these items are denied with them, and Applied.Would is that of a peek.
//
// After an error no item has an Outcome. That of bad input is a [*engine.CallError] with the
// index of the item. One that may wait is bad input, also under a shadow.
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
	if err != nil {
		for i := range items {
			items[i].Outcome = Outcome{}
		}
		return err
	}
	whole := weir.Decision{Allowed: true}
	for i, at := range t.at {
		it := &items[at]
		whole = t.calls[i].Decision
		it.Outcome.Decision = whole
		it.Outcome.noteBlock()
		it.Rule.warn(&it.Outcome, &t.calls[i], func(l *engine.Limit) int64 {
			return t.units(it, l)
		})
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
		if err := it.checkTogether(); err != nil {
			return &engine.CallError{Call: i, Err: err}
		}
		if r.Shadow {
			continue
		}
		t.calls, t.at = append(t.calls, c), append(t.at, i)
	}
	return nil
}

// checkTogether returns the reason why the item cannot be decided with others.
func (it *Item) checkTogether() error {
	r := it.Rule
	switch {
	case it.MaxWait != 0:
		return engine.Input("wait", "calls that are decided together cannot wait; "+
			"leave MaxWait out, or decide the call by itself")
	case it.Reserve:
		return engine.Input("request", "policy %q: "+
			"units are not reserved together with others; reserve them by themselves", r.Name)
	case r.Reported && !r.Shadow && it.N > 0:
		return engine.Input("request", "policy %q counts reported units, "+
			"so an attempt charges nothing; decide it by itself", r.Name)
	}
	return nil
}

// decideCalls decides the calls. Its error has the index of the item.
func (t *together) decideCalls(ctx context.Context) error {
	err := weir.DecideTogether(ctx, t.calls)
	if of, ok := errors.AsType[*engine.CallError](err); ok {
		return &engine.CallError{Call: t.at[of.Call], Err: of.Err}
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
	it.Outcome = Outcome{}
	if whole.Allowed {
		it.Err = it.Rule.decide(ctx, &it.Request, &it.Outcome)
		return
	}
	peek := it.Request
	peek.Op = engine.Peek
	it.Err = it.Rule.decide(ctx, &peek, &it.Outcome)
	d := &it.Outcome.Decision
	d.Allowed = false
	d.Granted = 0
	d.RetryAfter = whole.RetryAfter
}
