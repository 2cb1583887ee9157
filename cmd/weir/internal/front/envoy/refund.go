package envoy

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

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

// refundItem gives hits back to the item's histories, in one step. The protocol does not name
// the instant of the grant, so each limit refunds the oldest hits that still count, and never
// more hits than count (R10). No window then holds more than was granted in it and not given
// back: the hits that stay are newer than those that should have stayed, and count longer.
func (s *Service) refundItem(ctx context.Context, c *call, it *item) error {
	g := group{engine: s.options.Engine, outage: s.options.Outage, n: 0, items: []*item{it}}
	if err := s.prepare(c, &g); err != nil {
		return err
	}
	var failed error
	if it.n > 0 {
		_, failed = g.refund(ctx, engine.Oldest, it.n)
	}
	if err := g.query(ctx, c, weir.OpPeek); err != nil {
		return err
	}
	if failed != nil && !g.d.Degraded { // a degraded decision refunds nothing
		return failed
	}
	it.over = false
	return nil
}
