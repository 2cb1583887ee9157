package envoy

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// maxIdle bounds the refunds in a row that take nothing although hits still count:
// concurrent requests may refund the same entries.
const maxIdle = 8

// refundItems gives back the hits of the items with is_negative_hits.
func (s *Service) refundItems(ctx context.Context, c *call) error {
	for i := range c.items {
		if it := &c.items[i]; it.kind == refunded {
			if err := s.refundItem(ctx, c, it); err != nil {
				return err
			}
		}
	}
	return nil
}

// refundItem gives hits back to the item's histories. The protocol does not name the
// instant of the grant, so the oldest hits that still count are refunded, and never more
// hits than count. No window then holds more than was granted in it and not given back:
// the hits that stay are newer than those that should have stayed, and count longer.
func (s *Service) refundItem(ctx context.Context, c *call, it *item) error {
	g := group{engine: s.options.Engine, outage: s.options.Outage, n: 0, items: []*item{it}}
	if err := s.prepare(c, &g); err != nil {
		return err
	}
	if g.states == nil {
		g.states = make([]weir.LimitState, 1)
	}
	narrow := 0
	if it.limit == nil {
		narrow = c.domain.policy.narrow
	}
	left, failed := it.n, error(nil)
	if left > 0 && len(g.compiled.Limits) == 1 { // several limits need refunds of the same entries
		left = 0
		_, failed = g.refund(ctx, engine.Oldest, it.n)
	}
	for idle := 0; ; {
		// The limit with the most dimensions decides: a policy's other limits hold all of
		// its entries.
		if err := g.query(ctx, c, weir.OpPeek); err != nil {
			return err
		}
		if failed != nil && !g.d.Degraded { // a degraded decision refunds nothing
			return failed
		}
		st := &g.states[narrow]
		if left == 0 || st.Used <= 0 || g.d.Degraded || idle == maxIdle {
			it.over = false
			return nil
		}
		oldest := g.d.At.Add(st.NextAfter - st.Window - st.MaxHold).UnixMicro()
		if g.compiled.Limits[narrow].Cell > 0 {
			oldest-- // into the cell that ends there (R9)
		}
		took, err := g.refund(ctx, oldest, left)
		if err != nil {
			return err
		}
		left -= min(took, left)
		if idle++; took > 0 {
			idle = 0
		}
	}
}
