package envoy

import (
	"context"

	"github.com/weirlimit/weir"
)

// takeBack gives hits back to the item's histories: hits of a request long since
// answered, of which the protocol does not say when it was. So the oldest that still
// count are taken. Whichever were meant, no window then holds more than was granted
// in it and not given back: what stays is newer, and so counts for longer, than what
// should have stayed. Never more is given back than counts.
func (s *Service) takeBack(ctx context.Context, w *work, it *item) error {
	g := group{engine: s.engine, n: 0, items: []*item{it}}
	if err := s.prepare(w, &g); err != nil {
		return err
	}
	if g.states == nil {
		g.states = w.borrow(1)
	}
	narrow := 0
	if it.limit == nil {
		narrow = w.domain.addressed.narrow
	}
	left, failed := g.takeOldest(ctx, it.n)
	for idle := 0; ; {
		// A policy's other limits hold what the one that counts by most dimensions holds.
		if err := g.ask(ctx, w, weir.OpPeek); err != nil {
			return err
		}
		if failed != nil && !g.d.Degraded { // or a fallback answers, which takes nothing back
			return failed
		}
		st := &g.states[narrow]
		if left == 0 || st.Used <= 0 || g.d.Degraded || idle == mostIdle {
			it.over = false
			return nil
		}
		oldest := g.d.At.Add(st.NextAfter - st.Window).UnixMicro()
		if g.plan.Limits()[narrow].Cell > 0 {
			oldest-- // into the cell whose end it is (R9)
		}
		took, err := g.engine.Refund(ctx, g.plan, g.key, oldest, left, weir.Now)
		if err != nil {
			return err
		}
		left -= min(took, left)
		if idle++; took > 0 {
			idle = 0
		}
	}
}

// takeOldest takes hits of the oldest entries until none is left to take or none to
// take from, in a step for each entry, and returns how many are left. Of a policy of
// several limits it takes none: there the same entries have to be found in all.
func (g *group) takeOldest(ctx context.Context, n int64) (left int64, err error) {
	if len(g.plan.Limits()) > 1 {
		return n, nil
	}
	for n > 0 {
		took, err := g.engine.Refund(ctx, g.plan, g.key, weir.Oldest, n, weir.Now)
		if err != nil || took == 0 {
			return n, err
		}
		n -= min(took, n)
	}
	return 0, nil
}

// mostIdle is how often in a row there may be nothing to take where there just was:
// others may take back at the same time.
const mostIdle = 8
