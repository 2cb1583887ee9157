package weirredis

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// denials remembers denials, so that who keeps asking is answered without Redis.
//
// A denial holds until an entry leaves or a gap opens: that is how long the answer
// stays the same with nobody else acting, and other callers can only push it
// further away. Durations are counted from before the question was sent, on this
// process's monotonic clock, so that no clock of another machine is needed.
//
// What could end a denial sooner is a refund, a reset or a raised limit. Those of
// this engine are seen at once; those of other processes after most at the latest.
type denials struct {
	most time.Duration // how long a denial is believed at most; 0 = none is remembered
	seed maphash.Seed
	held atomic.Int64 // denials remembered, so that a cache without any costs nothing

	// epochs tell the denials of a policy from before and after something that
	// could end them. Policies share them by hash; that only forgets more.
	epochs [64]atomic.Uint32

	shards [16]denialShard
}

type denialShard struct {
	mu sync.Mutex // protects the following
	of map[string]denied
}

// denied is what was denied to whom: one question for each tuple of keys.
type denied struct {
	arg   string
	sent  time.Time
	until time.Time
	epoch uint32
	reply reply
}

// shardDenials bounds the memory of the cache: 16 shards of so many.
const shardDenials = 4096

func newDenials(most time.Duration) *denials {
	return &denials{most: most, seed: maphash.MakeSeed()}
}

// epoch returns the present epoch of a policy; a denial is remembered with the one
// from before it was asked for.
func (c *denials) epoch(policy string) *atomic.Uint32 {
	return &c.epochs[maphash.String(c.seed, policy)%uint64(len(c.epochs))]
}

// stale ends all denials of a policy.
func (c *denials) stale(policy string) { c.epoch(policy).Add(1) }

func (c *denials) shard(all string) *denialShard {
	return &c.shards[maphash.String(c.seed, all)%uint64(len(c.shards))]
}

// recall answers q from memory if that can be done.
func (c *denials) recall(q *question, epoch uint32, clock func() time.Time) (r reply, ok bool) {
	if c.held.Load() == 0 {
		return r, false
	}
	now := clock()
	s := c.shard(q.all)
	s.mu.Lock()
	d, ok := s.of[q.all]
	s.mu.Unlock()
	if !ok || d.arg != q.arg || d.epoch != epoch || !now.Before(d.until) {
		return r, false
	}
	return d.reply.later(now.Sub(d.sent).Microseconds()), true
}

// later is the reply so many microseconds later, with nobody else acting.
func (r *reply) later(us int64) reply {
	c := *r
	c.at += us
	c.stays -= us
	if c.wait > 0 {
		c.wait -= us
	}
	c.reset = max(0, c.reset-us)
	return c
}

// note learns from the reply to q, which was sent at that time.
func (c *denials) note(q *question, r *reply, epoch uint32, sent time.Time) {
	if c.most == 0 {
		return
	}
	if r.bound == 0 || r.granted > 0 {
		c.forget(q.all)
		return
	}
	if q.canRecall() && r.stays > 0 {
		d := denied{arg: q.arg, sent: sent, epoch: epoch, reply: *r}
		d.until = sent.Add(min(c.most, time.Duration(min(r.stays, maxStays))*time.Microsecond))
		c.remember(q.all, d)
	}
}

// maxStays keeps durations from overflowing: 2^53 microseconds do not fit 63 bits
// of nanoseconds.
const maxStays = 1 << 50

func (c *denials) remember(all string, d denied) {
	s := c.shard(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]denied{}
	}
	before := len(s.of)
	if before >= shardDenials {
		s.makeRoom(d.sent)
	}
	s.of[all] = d
	c.held.Add(int64(len(s.of) - before))
}

// makeRoom forgets the denials that are over among a few, or any one of them.
func (s *denialShard) makeRoom(now time.Time) {
	looked := 0
	for all, d := range s.of {
		if looked++; !now.Before(d.until) || looked == 8 {
			delete(s.of, all)
		}
		if looked == 8 {
			return
		}
	}
}

// forget ends what is remembered for the keys.
func (c *denials) forget(all string) {
	if c.held.Load() == 0 {
		return
	}
	s := c.shard(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.of[all]; ok {
		delete(s.of, all)
		c.held.Add(-1)
	}
}
