package enforce

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
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
	var groups []group
	for i := range items {
		it := &items[i]
		if it.Err != nil {
			continue
		}
		it.Outcome = Outcome{}
		r := it.Rule
		if r.blocks != nil {
			it.Outcome, it.Err = r.Decide(ctx, &it.Request)
			continue
		}
		op := r.begin(&it.Outcome, &it.Request)
		a := r.withStates(op, &it.Request)
		g := groupOf(&groups, r.engine)
		g.items = append(g.items, it)
		g.calls = append(g.calls, it.Outcome.Limiter.Call(a.Key, weir.Request{Op: op, N: a.N, At: a.At, States: a.States, ID: a.ID}))
	}
	for i := range groups {
		groups[i].decideItems(ctx)
	}
}

// group is the items of one engine.
type group struct {
	engine engine.Engine
	items  []*Item
	calls  []weir.Call
}

// groupOf returns the group of an engine.
func groupOf(groups *[]group, e engine.Engine) *group {
	for i := range *groups {
		if g := &(*groups)[i]; sameEngine(g.engine, e) {
			return g
		}
	}
	*groups = append(*groups, group{engine: e})
	return &(*groups)[len(*groups)-1]
}

// sameEngine reports whether two engines are the same. Those around one store are if their
// mode for outages is.
func sameEngine(a, b engine.Engine) bool {
	f, isF := a.(*fallback.Engine)
	g, isG := b.(*fallback.Engine)
	return a == b || isF && isG && *f == *g
}

// decideItems decides the items and sets their outcomes.
func (g *group) decideItems(ctx context.Context) {
	weir.DecideAll(ctx, g.engine, g.calls)
	for i, it := range g.items {
		c := &g.calls[i]
		if it.Outcome.Decision = c.Decision; c.Err == nil {
			it.Rule.warn(&it.Outcome, c.Request.Op, c.Request.N, c.Request.States, it.Outcome.granted)
		}
		it.Err = it.Rule.finish(&it.Outcome, &it.Request, c.Err)
	}
}
