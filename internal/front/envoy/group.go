package envoy

import (
	"context"
	"encoding/binary"

	"github.com/weirlimit/weir"
)

// group is what is decided in one step: items that each have a limit of their own,
// or one item by a policy.
type group struct {
	engine weir.Engine
	plan   *weir.Plan
	key    weir.Key
	n      int64 // the most hits that one of the items asks for
	mixed  bool  // some ask for fewer: their limits have a cost of their own in the plan
	items  []*item

	d       weir.Decision
	states  []weir.LimitState // of each limit, where there are several; otherwise d says it all
	granted bool              // n was charged
}

// gather puts the items of a kind into as few groups as may be.
func (s *Service) gather(w *work, k kind) []group {
	from := len(w.groups)
	for i := range w.items {
		if it := &w.items[i]; it.kind == k {
			if g := s.room(w.groups[from:], it, k); g != nil {
				g.add(it)
				continue
			}
			w.groups = append(w.groups, group{engine: s.engine, n: it.n, items: []*item{it}})
		}
	}
	return w.groups[from:]
}

// room returns the group that can take the item, or nil. Items whose decisions do
// not depend on each other have groups of their own.
func (s *Service) room(groups []group, it *item, k kind) *group {
	if k != enforced || it.limit == nil || s.options.Apart != nil && s.options.Apart() {
		return nil
	}
	for i := range groups {
		if g := &groups[i]; g.takes(it) {
			return g
		}
	}
	return nil
}

// takes reports whether the item can be decided together with those of the group.
// What only looks cannot, beside what charges: an attempt charges all its limits.
func (g *group) takes(it *item) bool {
	if (g.n == 0) != (it.n == 0) || len(g.items) == weir.MaxLimits {
		return false
	}
	for _, other := range g.items {
		if other.limit == nil || other.limit.weir.Name == it.limit.weir.Name {
			return false
		}
	}
	return true
}

func (g *group) add(it *item) {
	g.items = append(g.items, it)
	g.mixed = g.mixed || it.n != g.n
	g.n = max(g.n, it.n)
}

// cost is that of the item's limit in the group's plan. The largest number of hits is
// what the attempt asks for, and it is the one that varies most from request to
// request: so plans are few.
func (g *group) cost(it *item) int64 {
	if it.n == g.n {
		return 0
	}
	return it.n
}

// prepare finds the group's plan and key, and room for states.
func (s *Service) prepare(w *work, g *group) error {
	first := g.items[0]
	switch {
	case first.limit == nil:
		a := w.domain.addressed
		g.engine, g.plan, g.key = first.engine, a.plan, first.key
		if a.varies { // then only states tell the numbers
			g.states = w.borrow(len(a.plan.Limits()))
			return nil
		}
	case len(g.items) == 1:
		g.plan = first.limit.plan
		if first.limit.weir.By != nil {
			g.key = weir.K(first.value)
		}
	default:
		var err error
		if g.plan, err = w.domain.together(w, g); err != nil {
			return err
		}
		g.key = keyOf(g.items)
	}
	if n := len(g.plan.Limits()); n > 1 {
		g.states = w.borrow(n)
	}
	return nil
}

// together returns the plan of limits that are decided in one step.
func (d *domain) together(w *work, g *group) (*weir.Plan, error) {
	key := w.text[:0]
	for _, it := range g.items {
		key = binary.AppendUvarint(binary.AppendUvarint(key, it.limit.id), uint64(g.cost(it)))
	}
	w.text = key
	if p := d.plans.get(key); p != nil {
		return p, nil
	}
	p := weir.Policy{Name: d.policy}
	for _, it := range g.items {
		l := it.limit.weir
		l.Cost = g.cost(it)
		p.Limits = append(p.Limits, l)
	}
	plan, err := p.Plan()
	if err == nil {
		d.plans.put(key, plan)
	}
	return plan, err
}

// keyOf is the key of a plan of several limits: a value for each that counts by one.
func keyOf(items []*item) weir.Key {
	var room [weir.MaxLimits]string
	values := room[:0]
	for _, it := range items {
		if it.limit.weir.By != nil {
			values = append(values, it.value)
		}
	}
	return weir.K(values...)
}

// borrow returns room for n states. It is the request's until the work is reset.
func (w *work) borrow(n int) []weir.LimitState {
	if len(w.states)+n > cap(w.states) {
		w.states = make([]weir.LimitState, 0, max(2*cap(w.states), 2*weir.MaxLimits, n))
	}
	from := len(w.states)
	w.states = w.states[:from+n]
	return w.states[from : from+n : from+n]
}

// ask puts the group's question. An attempt of no hits is a peek.
func (g *group) ask(ctx context.Context, w *work, op weir.Op) (err error) {
	clear(g.states)
	g.d, err = g.engine.Decide(ctx, g.plan, g.key, weir.Request{Op: op, N: g.n, At: weir.Now, States: g.states})
	if err != nil {
		return err
	}
	w.degraded = w.degraded || g.d.Degraded
	g.granted = op == weir.OpAttempt && g.n > 0 && g.d.Allowed
	g.tell(w)
	return nil
}

// tell puts the answer into the items.
func (g *group) tell(w *work) {
	if g.items[0].limit == nil {
		g.tellPolicy(w, g.items[0])
		return
	}
	for i, it := range g.items {
		it.shown = it.limit.shown
		if g.states == nil {
			it.over, it.remaining, it.wait, it.reset = !g.d.Allowed, g.d.Remaining, g.d.RetryAfter, g.d.ResetAfter
			continue
		}
		st := &g.states[i]
		it.over, it.remaining, it.wait, it.reset = false, st.Remaining, st.RetryAfter, st.ResetAfter
		if !g.d.Allowed { // then nothing was charged, and the room is the one that was asked for
			it.over = it.n > it.room(st)
		}
	}
}

// room is what there was for the item in a state. Where a fallback allows without
// one (FailOpen), it is the whole limit.
func (it *item) room(st *weir.LimitState) int64 {
	if st.Name == "" {
		return it.limit.weir.Max
	}
	return st.Remaining
}

// tellPolicy puts the answer of a policy into its item. Of several limits it shows
// the one that bound, otherwise the one with the least left.
func (g *group) tellPolicy(w *work, it *item) {
	a := &g.d
	it.over, it.remaining, it.wait, it.reset = !a.Allowed, a.Remaining, a.RetryAfter, a.ResetAfter
	show := 0
	for i := range g.states {
		st := &g.states[i]
		if st.Name == a.Limit || a.Limit == "" && st.Remaining < g.states[show].Remaining {
			show = i
		}
	}
	it.shown = w.domain.addressed.shown[show]
	if g.states != nil {
		it.shown = w.domain.addressed.showing(show, &g.states[show])
	}
	if g.states != nil && g.states[show].Name != "" {
		it.remaining, it.reset = g.states[show].Remaining, g.states[show].ResetAfter
	}
}

// blocks reports whether an attempt that the group's policy refuses may begin a block.
func (g *group) blocks() bool {
	b, ok := g.engine.(interface{ Blocks() bool })
	return ok && b.Blocks()
}

// beginBlock makes the attempt that was only looked at and refused, so that a block
// may begin, and tells how long it lasts. Should there be room by now, the request is
// refused all the same, and charges nothing.
func (g *group) beginBlock(ctx context.Context, w *work) error {
	d, err := g.engine.Decide(ctx, g.plan, g.key, weir.Request{Op: weir.OpAttempt, N: g.n, At: weir.Now})
	if err != nil {
		return err
	}
	if d.Allowed && d.Degraded {
		return nil // a fallback has charged the store nothing
	}
	if d.Allowed && g.n > 0 {
		_, err = g.engine.Refund(ctx, g.plan, g.key, d.At.UnixMicro(), d.Granted, weir.Now)
		return err
	}
	return g.ask(ctx, w, weir.OpPeek)
}

// giveBack takes back what the group was granted, and returns how many hits could
// not be.
func (g *group) giveBack(ctx context.Context) (kept int64, err error) {
	if !g.granted {
		return 0, nil
	}
	g.granted = false
	at := g.d.At.UnixMicro()
	if !g.mixed {
		if _, err := g.engine.Refund(ctx, g.plan, g.key, at, g.n, weir.Now); err != nil {
			return g.n * int64(len(g.items)), err
		}
		return 0, nil
	}
	// A refund takes nothing of a limit that has a cost of its own: each by its own
	// plan, which has none.
	for _, it := range g.items {
		var key weir.Key
		if it.limit.weir.By != nil {
			key = weir.K(it.value)
		}
		if _, failed := g.engine.Refund(ctx, it.limit.plan, key, at, it.n, weir.Now); failed != nil {
			kept, err = kept+it.n, failed
		}
	}
	return kept, err
}
