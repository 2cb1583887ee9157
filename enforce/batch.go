package enforce

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
)

// Item is one request of a batch, with its outcome.
type Item struct {
	Rule *Rule
	Request
	Outcome Outcome
	Err     error // as Rule.Decide returns it; an item that has one before is left alone
}

// DecideAll decides items in their order, each as [Rule.Decide] does: on memory with one
// reading of the clock, on Redis in one round trip. Policies with blocks take further steps,
// so their items are decided one by one. Policies share no histories, so those items may be
// decided before others.
func DecideAll(ctx context.Context, items []Item) {
	began := time.Now()
	var b batch
	for i := range items {
		it := &items[i]
		if it.Err != nil {
			continue
		}
		it.Outcome = Outcome{}
		r := it.Rule
		if r.blocks != nil {
			it.Outcome, it.Err = r.decide(ctx, &it.Request)
			continue
		}
		op := r.begin(&it.Outcome, &it.Request)
		a := r.withStates(op, &it.Request)
		b.items = append(b.items, it)
		b.calls = append(b.calls, weir.Call{Limiter: it.Outcome.Limiter, Key: a.Key, Request: weir.Request{Op: op, N: a.N, At: a.At, States: a.States, ID: a.ID}})
	}
	b.decideItems(ctx)
	observeAll(items, nil, began)
}

// batch is items with their calls.
type batch struct {
	items []*Item
	calls []weir.Call
}

// decideItems decides the items and sets their outcomes.
func (b *batch) decideItems(ctx context.Context) {
	weir.DecideAll(ctx, b.calls)
	for i, it := range b.items {
		c := &b.calls[i]
		if it.Outcome.Decision = c.Decision; c.Err == nil {
			it.Rule.warn(&it.Outcome, c.Request.Op, c.Request.N, c.Request.States, it.Outcome.granted)
		}
		it.Err = it.Rule.finish(&it.Outcome, &it.Request, c.Err)
	}
}
