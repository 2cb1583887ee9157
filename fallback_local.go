package weir

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// share is what one process may grant of every limit while the store is out. Its
// memory is never emptied between outages, so that a store which comes and goes
// does not renew it: in no window does this process grant more than the share.
type share struct {
	memory    *Memory
	instances int64
	least     int64
	of        func(policy string, l Limit) int64

	mu    sync.RWMutex    // protects the following
	plans map[*Plan]*Plan // what a plan's limits are scaled to
}

// mostPlans bounds the plans remembered, since policies may be reloaded for ever.
// One that was dropped is scaled again when it is next used; its histories belong
// to its names and are not dropped with it.
const mostPlans = 1024

func newShare(s *settings) *share {
	h := &share{memory: s.memory, instances: s.instances, least: s.least, of: s.shareOf, plans: map[*Plan]*Plan{}}
	if h.memory == nil {
		h.memory = NewMemory()
	}
	return h
}

// plan returns p with the shares in place of its limits.
func (h *share) plan(p *Plan) *Plan {
	h.mu.RLock()
	scaled := h.plans[p]
	h.mu.RUnlock()
	if scaled != nil {
		return scaled
	}
	scaled = h.scale(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.plans) >= mostPlans {
		clear(h.plans)
	}
	h.plans[p] = scaled
	return scaled
}

func (h *share) scale(p *Plan) *Plan {
	policy := p.Policy()
	for i := range policy.Limits {
		policy.Limits[i].Max = h.max(policy.Name, policy.Limits[i])
	}
	scaled, err := policy.Plan()
	if err != nil {
		panic(err) // p was checked, and a lower Max is as right
	}
	return scaled
}

// max is the share of one limit, 0 … l.Max.
func (h *share) max(policy string, l Limit) int64 {
	most := max(l.Max/h.instances, min(h.least, l.Max))
	if h.of != nil {
		whole := l.Max
		most = min(max(h.of(policy, l), 0), whole)
	}
	return most
}

// decide answers by the share.
func (h *share) decide(q *question, d *Decision) error {
	scaled := h.plan(q.plan)
	if err := h.memory.decide(scaled, &q.key, &q.ask, d); err != nil {
		return err
	}
	shared(q, d)
	for i := range q.ask.States {
		if d.Repeated { // nobody looked
			break
		}
		unscale(&q.ask.States[i], q.plan.limits[i].Max, q.plan.limits[i].Units(q.ask.N))
	}
	return nil
}

// shared makes d, as the share's memory says it, the answer of a share to q.
func shared(q *question, d *Decision) {
	d.Degraded = true
	if d.RetryAfter == Never && firstBelow(q.plan, q.ask.N) < 0 {
		d.RetryAfter = untilBack
	}
}

// recall answers an operation that the share has decided, and reports whether it has:
// the store does not know it, and would charge it as another one.
func (f *FallbackEngine) recall(q *question) (d Decision, known bool, err error) {
	h := f.store.share()
	if known, err = h.memory.recall(h.plan(q.plan), &q.key, &q.ask, &d); known && err == nil {
		shared(q, &d)
		f.store.degraded.Add(1)
	}
	return d, known, err
}

// peek is what the share says to an attempt of as much, or a peek, as the memory of
// its own tells it. It leaves the states of q alone.
func (h *share) peek(q *question) (d Decision, err error) {
	err = h.memory.decide(h.plan(q.plan), &q.key, &Ask{Op: OpPeek, N: q.ask.N, At: q.ask.At}, &d)
	return d, err
}

// follow is an attempt of n units that the store has granted, now or, if it was made
// again, some time before: an operation that the share has followed already is not
// charged again. The answer is that of peek when it is over, and how much was granted.
func (h *share) follow(q *question, n int64, again bool) (d Decision, err error) {
	a := Ask{N: n, At: q.ask.At}
	if q.ask.names() {
		a.ID = followed + q.ask.ID
	}
	taken, err := h.take(q, a)
	if err == nil && taken.Repeated && !again { // the store has forgotten that the id was used
		a.ID = ""
		taken, err = h.take(q, a)
	}
	if err != nil { // the share is full; the store has recorded already
		return d, fmt.Errorf("%w: %w", ErrUnknownFate, err)
	}
	if d, err = h.peek(q); err != nil {
		return d, err
	}
	d.Granted, d.Repeated = taken.Granted, taken.Repeated
	return d, nil
}

// followed begins the ids of what the store decided as well. None that a caller
// chooses is as long.
var followed = strings.Repeat("=", MaxIDBytes)

func (h *share) take(q *question, a Ask) (d Decision, err error) {
	err = h.memory.decide(h.plan(q.plan), &q.key, &a, &d)
	return d, err
}

// untilBack is the wait for what only the store can grant. When it will be back
// nobody knows; that it is back is found out within a second.
const untilBack = time.Second

// unscale tells the state of a share as that of its limit, of which the shares of
// the other processes are used.
func unscale(s *LimitState, most, n int64) {
	s.Used += most - s.Max
	s.Max = most
	if s.RetryAfter == Never && n <= most {
		s.RetryAfter = untilBack
	}
}

// reset forgets the histories of the key.
func (h *share) reset(p *Plan, k Key) {
	_ = h.memory.Reset(context.Background(), h.plan(p), k) // it never fails, and waits for nothing
}
