package fallback

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// localShare decides by this process's share of every limit while the store is out.
// Its memory is kept between outages, so a store that comes and goes does not renew the
// share: in no window does this process grant more than it.
type localShare struct {
	memory    *weir.Memory
	instances int64

	mu    sync.RWMutex              // protects the following
	plans map[*weir.Plan]*weir.Plan // each plan with the shares as its limits
}

// maxPlans bounds the cached plans, because policies may be reloaded for ever. A plan
// that was dropped is scaled again at its next use; histories belong to names and stay.
const maxPlans = 1024

func newShare(instances int64) *localShare {
	return &localShare{memory: weir.NewMemory(), instances: instances, plans: map[*weir.Plan]*weir.Plan{}}
}

// plan returns p with the shares as its limits. A plan of calls decided together is used
// once, so it is not cached.
func (s *localShare) plan(p *weir.Plan) *weir.Plan {
	if p.Together() {
		return s.scale(p)
	}
	s.mu.RLock()
	scaled := s.plans[p]
	s.mu.RUnlock()
	if scaled != nil {
		return scaled
	}
	scaled = s.scale(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plans) >= maxPlans {
		clear(s.plans)
	}
	s.plans[p] = scaled
	return scaled
}

func (s *localShare) scale(p *weir.Plan) *weir.Plan {
	limits := p.Policy().Limits
	for i := range limits {
		limits[i] = scaled(limits[i], limits[i].Max/s.instances)
	}
	scaled, err := p.WithLimits(limits)
	if err != nil {
		panic(err) // p was valid, and a lower Max is valid too
	}
	return scaled
}

// scaled returns the limit with a share of its Max. The Burst of a bucket is scaled alike,
// rounded down. A bucket without a whole unit denies everything.
func scaled(l weir.Limit, share int64) weir.Limit {
	if l.Kind == weir.Bucket {
		hi, lo := bits.Mul64(uint64(l.Burst), uint64(share))
		burst, _ := bits.Div64(hi, lo, uint64(l.Max))
		l.Burst = int64(burst)
		if l.Burst == 0 {
			share, l.Kind = 0, weir.Rolling
		}
	}
	l.Max = share
	if l.Kind == weir.Bucket {
		l.Burst = min(l.Burst, l.MaxBurst())
	}
	return l
}

// decideCall decides the call by the share.
func (s *localShare) decideCall(c *call) (weir.Decision, error) {
	d, err := s.memory.Decide(context.Background(), s.plan(c.plan), c.key, c.request)
	if err != nil {
		return d, err
	}
	degrade(c, &d)
	if !d.Replayed { // a repeated answer fills no states
		for i := range c.request.States {
			l := &c.plan.Limits()[i]
			unscale(&c.request.States[i], l, l.Units(c.request.N))
		}
	}
	return d, nil
}

// replay returns the share's earlier answer to the call, and reports whether there is one.
func (s *localShare) replay(c *call) (weir.Decision, bool, error) {
	d, found, err := s.memory.Replay(s.plan(c.plan), c.key, c.request)
	if found && err == nil {
		degrade(c, &d)
	}
	return d, found, err
}

// reset resets the key's histories in the share.
func (s *localShare) reset(p *weir.Plan, k weir.Key) {
	_ = s.memory.Reset(context.Background(), s.plan(p), k) // it never fails
}

// untilBack is the RetryAfter of attempts that only the store can grant. The end of
// the outage is unknown, but it is noticed within about a second.
const untilBack = time.Second

// degrade marks d, which the share decided, as a decision without the store.
func degrade(c *call, d *weir.Decision) {
	d.Degraded = true
	if d.RetryAfter == weir.Never && firstBelow(c.plan, c.request.N) == nil {
		d.RetryAfter = untilBack
	}
}

// unscale converts the state of a share to the state of its limit, which counts the
// shares of the other processes as used. n is the number of units requested of the limit.
func unscale(s *weir.LimitState, l *weir.PlanLimit, n int64) {
	s.Used = l.Capacity - s.Remaining
	s.Kind, s.Max, s.Burst = l.Kind, l.Max, 0
	if l.Kind == weir.Bucket {
		s.Burst = l.Capacity
	}
	if s.RetryAfter == weir.Never && n <= l.Capacity {
		s.RetryAfter = untilBack
	}
}
