package fallback

import (
	"math/bits"
	"slices"
	"sync/atomic"
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
	opened    atomic.Bool                       // it has opened a reservation
	booked    atomic.Int64                      // its latest appointment so far, in µs since 1970
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
	if c.TTL > 0 && c.Result.Granted > 0 {
		s.opened.Store(true)
	}
	if c.Result.StartAfter > 0 {
		s.noteStart(c.Result.At.Add(c.Result.StartAfter).UnixMicro())
	}
	degrade(c)
	if !c.Result.Replayed { // a repeated answer fills no states
		for i := range c.States {
			l := &whole.Limits[i]
			unscale(&c.States[i], l, l.Units(c.N))
		}
	}
}

// noteStart notes the instant of an appointment.
func (s *localShare) noteStart(start int64) {
	for {
		latest := s.booked.Load()
		if start <= latest || s.booked.CompareAndSwap(latest, start) {
			return
		}
	}
}

// cancel makes a refund that cancels an appointment of the share, and reports whether it is one. A
// refund of an earlier instant is for the store, and so is that of another appointment.
func (s *localShare) cancel(c *engine.Call) bool {
	if c.From > s.booked.Load() || c.From <= instantOf(c).UnixMicro() {
		return false
	}
	whole := c.Rules
	c.Rules = s.of(whole)
	s.memory.Decide(c)
	c.Rules = whole
	if c.Err != nil || c.Result.Granted == 0 {
		c.Fail(nil)
		return false
	}
	c.Result.Degraded = true
	return true
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

// changeReservation settles or extends a reservation of the share, and reports whether it has one
// of that ID.
func (s *localShare) changeReservation(c *engine.Call) bool {
	return s.opened.Load() && change(s.memory, s.of(c.Rules), c)
}

// change settles or extends a reservation in a memory under other rules than the call has, and
// reports whether there is one of that ID. One that has expired is known for as long as an
// operation is (R15).
func change(m *memory.Memory, rules *engine.Compiled, c *engine.Call) bool {
	known := engine.Call{Rules: rules, Key: c.Key, N: 1, ID: c.ID} // of any number of units
	if !m.Replay(&known) {
		return false
	}
	whole := c.Rules
	c.Rules = rules
	m.Decide(c)
	c.Rules = whole
	if c.Err == nil {
		c.Result.Degraded = true
	}
	return true
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
		d.Kind = 0
		d.Max = 0
		d.Window = 0
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
	s.Kind = whole.Kind
	s.Max = whole.Max
	s.Burst = whole.Burst
	if s.RetryAfter == engine.Never && n <= l.Capacity {
		s.RetryAfter = untilBack
	}
}

// divide returns the rules with a share of 1/n of every Max, rounded down, on histories of
// the same names. The Burst of a bucket is shared alike. A bucket without a whole unit denies
// everything. Shares have no blocks (R20).
func divide(c *engine.Compiled, n int64) *engine.Compiled {
	limits := slices.Clone(c.Limits)
	for i := range limits {
		divideLimit(&limits[i], n)
		limits[i].Block = 0
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
		*l = engine.Limit{
			Name:        l.Name,
			Window:      l.Window,
			MinInterval: l.MinInterval,
			Cost:        l.Cost,
			By:          l.By,
			Policy:      l.Policy,
			Call:        l.Call,
		}
		return
	}
	refill := window.NewRefill(l.Max, l.Window)
	l.Capacity = min(int64(burst), refill.MaxBurst())
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
