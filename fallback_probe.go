package weir

import (
	"context"
	"fmt"
	"time"
)

// probePart is the part of the budget that the caller of a probe waits: 2 ms of 50.
// The store is taken to be down, so he is more likely to wait for nothing.
const probePart = 25

// probe puts q to a store that is taken to be down, within the budget. Its caller waits
// for a small part of that and is then answered by the mode, like everybody else during
// an outage: the probe goes on without him, and what it finds is for those who come
// after. As with any call that is given up, the store may count it all the same.
func (g *guard) probe(ctx context.Context, q *question, r *reply) (done bool) {
	if r.err = ctx.Err(); r.err != nil {
		defer g.breaker.release()
		return g.conclude(ctx, trying, 0, q, r)
	}
	on := context.WithoutCancel(ctx)
	e := &errand{question: q.kept(), done: make(chan struct{})}
	e.orphan = func() {
		defer g.breaker.release()
		if !e.aborted {
			g.conclude(on, trying, 0, &e.question, &e.reply)
		}
	}
	go e.run(g, func() { g.put(on, &e.question, &e.reply) })
	patience := time.NewTimer(g.budget / probePart)
	defer patience.Stop()
	select {
	case <-e.done:
	case <-patience.C:
		if e.leave(g) {
			r.err = g.givenUp(q)
			return false
		}
	case <-ctx.Done():
		if e.leave(g) {
			r.err = leaving(ctx)
			return true
		}
	}
	defer g.breaker.release()
	e.deliver(q, r)
	return g.conclude(ctx, trying, 0, q, r)
}

// givenUp is the error of a probe whose caller waits no longer.
func (g *guard) givenUp(q *question) error {
	fate := ErrUnknownFate
	if !q.writes() {
		fate = ErrUnavailable
	}
	return fmt.Errorf("%w: the store has been failing, and did not answer within %v", fate, g.budget/probePart)
}
