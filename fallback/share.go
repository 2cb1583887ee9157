package fallback

import (
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// localShare decides by this process's share of every limit while the store is out.
// Its memory is kept between outages, so a store that comes and goes does not renew the
// share: in no window does this process grant more than it.
type localShare struct {
	memory    *memory.Memory
	instances int64

	mu     sync.RWMutex                          // protects the following
	shares map[*engine.Compiled]*engine.Compiled // rules with the shares as their limits
}

// maxShares bounds the cached shares, because policies may be reloaded for ever. Rules that
// were dropped are divided again at their next use; histories belong to names and stay.
const maxShares = 1024

func newShare(instances int64) *localShare {
	return &localShare{memory: memory.New(memory.Options{}), instances: instances, shares: map[*engine.Compiled]*engine.Compiled{}}
}

// of returns the rules with the shares as their limits.
func (s *localShare) of(c *engine.Compiled) *engine.Compiled {
	s.mu.RLock()
	share := s.shares[c]
	s.mu.RUnlock()
	if share != nil {
		return share
	}
	share = divide(c, s.instances)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.shares) >= maxShares {
		clear(s.shares)
	}
	s.shares[c] = share
	return share
}

// decideCall decides the call by the share.
func (s *localShare) decideCall(c *engine.Call) {
	whole := c.Rules
	c.Rules = s.of(whole)
	s.memory.Decide(c)
	c.Rules = whole
	if c.Err != nil {
		return
	}
	degrade(c)
	if !c.Result.Replayed { // a repeated answer fills no states
		for i := range c.States {
			l := &whole.Limits[i]
			unscale(&c.States[i], l, l.Units(c.N))
		}
	}
}

// replay sets the share's earlier answer to the call, and reports whether there is one.
func (s *localShare) replay(c *engine.Call) bool {
	whole := c.Rules
	c.Rules = s.of(whole)
	found := s.memory.Replay(c)
	if c.Rules = whole; found && c.Err == nil {
		degrade(c)
	}
	return found
}

// reset resets the key's histories in the share.
func (s *localShare) reset(c *engine.Call) {
	s.memory.Decide(&engine.Call{Rules: s.of(c.Rules), Key: c.Key, Op: engine.Reset})
}

// untilBack is the RetryAfter of attempts that only the store can grant. The end of
// the outage is unknown, but it is noticed within about a second.
const untilBack = time.Second

// degrade marks a decision of the share as one without the store.
func degrade(c *engine.Call) {
	c.Result.Degraded = true
	if c.Result.RetryAfter == engine.Never && firstBelow(c) == nil {
		c.Result.RetryAfter = untilBack
	}
}

// unscale converts the state of a share to the state of its limit, which counts the
// shares of the other processes as used. n is the number of units requested of the limit.
func unscale(s *engine.State, l *engine.Limit, n int64) {
	s.Used = l.Capacity - s.Remaining
	whole := l.Describe()
	s.Kind, s.Max, s.Burst = whole.Kind, whole.Max, whole.Burst
	if s.RetryAfter == engine.Never && n <= l.Capacity {
		s.RetryAfter = untilBack
	}
}
