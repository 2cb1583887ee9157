package envoy

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/engine"
)

// queryAll queries the groups in turn.
func queryAll(ctx context.Context, c *call, groups []group, op weir.Op) error {
	for i := range groups {
		if err := groups[i].query(ctx, c, op); err != nil {
			return err
		}
	}
	return nil
}

func anyAllowed(groups []group) bool {
	for i := range groups {
		if groups[i].d.Allowed {
			return true
		}
	}
	return false
}

// query has the engine decide the group, and sets the results of its items. An attempt
// of no hits is a peek.
func (g *group) query(ctx context.Context, c *call, op weir.Op) error {
	if g.policy != nil {
		o, err := g.policy.decide(ctx, &enforce.Request{Target: g.items[0].target, Op: op, N: g.n, States: g.states})
		if err != nil {
			return err
		}
		g.d, c.warnings = o.Decision, append(c.warnings, o.Applied.Warnings...)
		g.setPolicyResult(g.policy)
	} else {
		g.calls[0] = engine.Call{Rules: g.compiled, Key: g.key, Op: op, N: g.n, Outage: g.outage, States: g.states}
		g.engine.Do(ctx, g.calls[:])
		g.d = weir.Decision(g.calls[0].Result)
		if err := g.calls[0].Err; err != nil {
			return err
		}
		g.setResults()
	}
	c.degraded = c.degraded || g.d.Degraded
	g.charged = op == weir.OpAttempt && g.n > 0 && g.d.Allowed
	return nil
}

// decide decides a request by the policy.
func (d *policyDomain) decide(ctx context.Context, r *enforce.Request) (enforce.Outcome, error) {
	o, err := d.Decide(ctx, r)
	if err == nil && d.observer != nil {
		d.observer.Decided(r, &o)
	}
	return o, err
}

// refund refunds up to n hits of the grant at an instant, and returns the number of those
// that it took. Under count: reported an attempt has charged none.
func (g *group) refund(ctx context.Context, from, n int64) (took int64, err error) {
	if g.policy != nil && g.policy.Reported {
		return 0, nil
	}
	g.calls[0] = engine.Call{Rules: g.compiled, Key: g.key, Op: engine.Refund, N: n, From: from, Outage: g.outage}
	g.engine.Do(ctx, g.calls[:])
	took, err = g.calls[0].Result.Granted, g.calls[0].Err
	if took > 0 && err == nil && g.policy != nil && g.policy.observer != nil {
		g.policy.observer.Refunded(&g.items[0].target, from, n)
	}
	return took, err
}

// setResults sets the results of items with limits.
func (g *group) setResults() {
	for i, it := range g.items {
		it.shown = it.limit.shown
		if g.states == nil {
			it.over, it.remaining, it.wait, it.reset = !g.d.Allowed, g.d.Remaining, g.d.RetryAfter, g.d.ResetAfter
			continue
		}
		st := &g.states[i]
		it.over, it.remaining, it.wait, it.reset = false, st.Remaining, st.RetryAfter, st.ResetAfter
		if !g.d.Allowed { // nothing was charged, so the room is that before the attempt
			it.over = it.n > it.room(st)
		}
	}
}

// room returns the room for the item in a state. A fallback that allows without a state
// (fallback.Allow) leaves the whole limit.
func (it *item) room(st *weir.LimitState) int64 {
	if st.Name == "" {
		return it.limit.weir.Max
	}
	return st.Remaining
}

// setPolicyResult sets the result of an item with a policy. It shows the limit that
// denied the item, otherwise the limit with the least remaining.
func (g *group) setPolicyResult(p *policyDomain) {
	it, d := g.items[0], &g.d
	it.over, it.remaining, it.wait, it.reset = !d.Allowed, d.Remaining, d.RetryAfter, d.ResetAfter
	show := 0
	for i := range g.states {
		st := &g.states[i]
		if st.Name == d.Limit || d.Limit == "" && st.Remaining < g.states[show].Remaining {
			show = i
		}
	}
	it.shown = p.shown[show]
	if g.states == nil {
		return
	}
	st := &g.states[show]
	it.shown = p.shownLimit(show, st)
	if st.Name != "" {
		it.remaining, it.reset = st.Remaining, st.ResetAfter
	}
}

// beginBlock repeats as an attempt a peek that was denied, so that a block may begin,
// and sets the result with its length. If there is room by now, the request is denied
// all the same and charges nothing.
func (g *group) beginBlock(ctx context.Context, c *call) error {
	o, err := g.policy.decide(ctx, &enforce.Request{Target: g.items[0].target, N: g.n})
	if err != nil {
		return err
	}
	d := &o.Decision
	if d.Allowed && d.Degraded {
		return nil // a fallback has charged nothing in the store
	}
	if d.Allowed && g.n > 0 {
		_, err = g.refund(ctx, d.At.UnixMicro(), d.Granted)
		return err
	}
	return g.query(ctx, c, weir.OpPeek)
}

// rollBackTime bounds the time for the refunds of one rollback.
const rollBackTime = time.Second

// rollBack refunds the charges of groups, even if the client has hung up. Hits that
// cannot be refunded stay charged and are counted: the limit then grants too little,
// never too much.
func (s *Service) rollBack(ctx context.Context, groups []group) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollBackTime)
	defer cancel()
	for i := range groups {
		if kept, err := groups[i].refundCharge(ctx); err != nil {
			s.Counts.Kept.Add(kept)
			s.logOutage(err)
		}
	}
}

// refundCharge refunds the charge of the group's last query, and returns the number of
// hits that it could not refund.
func (g *group) refundCharge(ctx context.Context) (kept int64, err error) {
	if !g.charged {
		return 0, nil
	}
	g.charged = false
	at := g.d.At.UnixMicro()
	if !g.mixed {
		if _, err := g.refund(ctx, at, g.n); err != nil {
			return g.n * int64(len(g.items)), err
		}
		return 0, nil
	}
	// A refund skips limits with a cost of their own. So each item is refunded by the
	// policy of its limit alone, which has no cost.
	for _, it := range g.items {
		single := group{engine: g.engine, outage: g.outage, compiled: it.limit.compiled, key: it.limitKey()}
		if _, failed := single.refund(ctx, at, it.n); failed != nil {
			kept, err = kept+it.n, failed
		}
	}
	return kept, err
}
