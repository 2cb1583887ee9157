package fallback

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/rulecache"
	"github.com/weirlimit/weir/internal/window"
)

// localShare decides by this process's share of every limit while the store is out.
// Its memory is kept between outages, so a store that comes and goes does not renew the
// share: in no window does this process grant more than it.
type localShare struct {
	memory    *memory.Memory
	instances int64
	shares    rulecache.Cache[*engine.Compiled] // rules with the shares as their limits
}

// of returns the rules with the shares as their limits.
func (s *localShare) of(c *engine.Compiled) *engine.Compiled {
	share := s.shares.Get(c)
	if share == nil {
		share = s.shares.Put(c, divide(c, s.instances))
	}
	return *share
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

// reset resets the key's histories in the share. Their names are those of the whole, so the rules
// are not divided: a reset of some limits has rules of its own.
func (s *localShare) reset(c *engine.Call) {
	s.memory.Decide(&engine.Call{Rules: c.Rules, Key: c.Key, Op: engine.Reset})
}

// untilBack is the RetryAfter of attempts that only the store can grant. The end of
// the outage is unknown, but it is noticed within about a second.
const untilBack = time.Second

// degrade marks a decision of the share as one without the store.
func degrade(c *engine.Call) {
	d := &c.Result
	d.Degraded = true
	if d.Replayed && d.Limit != "" { // the share remembers the numbers of divided limits
		d.Kind, d.Max, d.Window = 0, 0, 0
		d.Used = 0
		c.Rules.Explain(d)
	}
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

// divide returns the rules with a share of 1/n of every Max, rounded down, on histories of
// the same names. The Burst of a bucket is shared alike. A bucket without a whole unit denies
// everything.
func divide(c *engine.Compiled, n int64) *engine.Compiled {
	limits := slices.Clone(c.Limits)
	for i := range limits {
		divideLimit(&limits[i], n)
	}
	s := engine.Compile(c.Name, c.Mode, c.Dimensions, limits)
	if s.Joined = c.Joined; s.Joined { // the limits may be of several policies
		for i := range s.Limits {
			s.Limits[i].Policy, s.Limits[i].Shared = c.Limits[i].Policy, c.Limits[i].Shared
		}
	}
	return s
}

// divideLimit divides the limit by n. Only a bucket has a Refill with a denominator.
func divideLimit(l *engine.Limit, n int64) {
	share := l.Max / n
	if l.Refill.Per == 0 {
		l.Max = share
		return
	}
	hi, lo := bits.Mul64(uint64(l.Capacity), uint64(share))
	burst, _ := bits.Div64(hi, lo, uint64(l.Max))
	l.Max = share
	if burst == 0 { // a window of no units denies everything
		*l = engine.Limit{Name: l.Name, Window: l.Window, MinInterval: l.MinInterval, Cost: l.Cost, By: l.By, Policy: l.Policy, Call: l.Call}
		return
	}
	refill := window.NewRefill(l.Max, l.Window)
	l.Capacity = min(int64(burst), refill.MaxBurst())
}

// openDecision returns the decision of an empty store. Unknown values stay zero:
// Remaining, ResetAfter and the states.
func openDecision(c *engine.Call) engine.Result {
	r := engine.Result{Allowed: true, Granted: c.N, At: instantOf(c), Degraded: true}
	if c.Op == engine.Record {
		return r
	}
	binding := firstBelow(c)
	if binding == nil {
		return r
	}
	r.Granted, r.RetryAfter = 0, engine.Never
	if c.Rules.Mode == engine.Partial {
		least := slices.MinFunc(c.Rules.Limits, func(a, b engine.Limit) int { return cmp.Compare(a.Capacity, b.Capacity) })
		r.Granted, _ = window.Grant(c.N, least.Capacity, true, true)
		binding = &least
	}
	r.Allowed = r.Granted > 0
	r.Limit = binding.Name
	return r
}

// firstBelow returns the first limit that the attempt never fits, or nil.
func firstBelow(c *engine.Call) *engine.Limit {
	for i := range c.Rules.Limits {
		if l := &c.Rules.Limits[i]; l.Units(c.N) > l.Capacity {
			return l
		}
	}
	return nil
}

// instantOf returns the instant of the call, in whole microseconds. Without one it reads this
// process's clock.
func instantOf(c *engine.Call) time.Time {
	if c.Given {
		return time.UnixMicro(c.At)
	}
	return time.UnixMicro(time.Now().UnixMicro())
}
