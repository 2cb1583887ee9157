package weirredis

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
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

	// latest are denials that shards hold too, where who asks again as before finds
	// them without a lock, and without putting the question into words.
	latest [1024]atomic.Pointer[denied]
}

type denialShard struct {
	mu sync.Mutex // protects the following
	of map[string]*denied
}

// denied is what was denied to whom: one question for each tuple of keys. It is not
// changed once it is remembered.
type denied struct {
	arg   string
	sent  time.Time
	holds time.Duration // from then on
	epoch uint32
	reply reply

	// The question as its caller put it, when it is among the latest.
	plan *weir.Plan
	key  weir.Key
	n    int64

	ended atomic.Bool // it is not remembered any more
}

// shardDenials bounds the memory of the cache: 16 shards of so many.
const shardDenials = 4096

func newDenials(most time.Duration) *denials {
	return &denials{most: most, seed: maphash.MakeSeed()}
}

// epoch returns the present epoch of a policy; a denial is remembered with the one
// from before it was asked for.
func (c *denials) epoch(policy string) *atomic.Uint32 {
	return c.epochOf(maphash.String(c.seed, policy))
}

func (c *denials) epochOf(hash uint64) *atomic.Uint32 { return &c.epochs[hash%uint64(len(c.epochs))] }

// place is where the latest denial of the key under a policy is, of whose name this
// is the hash.
func (c *denials) place(hash uint64, k *weir.Key) *atomic.Pointer[denied] {
	for i := range k.Len() {
		hash = hash*31 + maphash.String(c.seed, k.Value(i))
	}
	return &c.latest[hash%uint64(len(c.latest))]
}

// repeat answers an attempt now as one that was just denied, if it is the same in
// every word. It costs two hashes and a reading of the clock.
func (c *denials) repeat(p *weir.Plan, k *weir.Key, n int64, since func(time.Time) time.Duration) (d weir.Decision, ok bool) {
	if c.held.Load() == 0 {
		return d, false
	}
	hash := maphash.String(c.seed, p.Name())
	was := c.place(hash, k).Load()
	if was == nil || was.plan != p || was.n != n || was.ended.Load() || was.epoch != c.epochOf(hash).Load() {
		return d, false
	}
	for i := range k.Len() {
		if k.Value(i) != was.key.Value(i) {
			return d, false
		}
	}
	passed := since(was.sent)
	if passed >= was.holds {
		return d, false
	}
	r := was.reply.later(passed.Microseconds())
	return r.decision(p), true
}

// stale ends all denials of a policy.
func (c *denials) stale(policy string) { c.epoch(policy).Add(1) }

func (c *denials) shard(all string) *denialShard {
	return &c.shards[maphash.String(c.seed, all)%uint64(len(c.shards))]
}

// recall answers q from memory if that can be done.
func (c *denials) recall(q *question, epoch uint32, since func(time.Time) time.Duration) (r reply, ok bool) {
	if c.held.Load() == 0 {
		return r, false
	}
	s := c.shard(q.all)
	s.mu.Lock()
	d := s.of[q.all]
	s.mu.Unlock()
	if d == nil || d.arg != q.arg || d.epoch != epoch {
		return r, false
	}
	passed := since(d.sent)
	if passed >= d.holds {
		return r, false
	}
	return d.reply.later(passed.Microseconds()), true
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

// note learns from the reply to q, which the key's owner asked and which was sent at
// that time.
func (c *denials) note(p *weir.Plan, k *weir.Key, q *question, r *reply, epoch uint32, sent time.Time) {
	if c.most == 0 {
		return
	}
	if r.bound == 0 || r.granted > 0 {
		c.forget(q.all)
		return
	}
	if q.canRecall() && r.stays > 0 {
		d := &denied{arg: q.arg, sent: sent, epoch: epoch, reply: *r, plan: p, key: copied(k), n: q.asked}
		d.holds = min(c.most, time.Duration(min(r.stays, maxStays))*time.Microsecond)
		c.remember(q.all, d)
		c.place(maphash.String(c.seed, p.Name()), k).Store(d)
	}
}

// copied is the key with values of its own: those of the caller may be parts of
// something large, or of a buffer that is used again.
func copied(k *weir.Key) weir.Key {
	values := make([]string, k.Len())
	for i := range values {
		values[i] = strings.Clone(k.Value(i))
	}
	return weir.K(values...)
}

// maxStays keeps durations from overflowing: 2^53 microseconds do not fit 63 bits
// of nanoseconds.
const maxStays = 1 << 50

func (c *denials) remember(all string, d *denied) {
	s := c.shard(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]*denied{}
	}
	before := len(s.of)
	if old := s.of[all]; old != nil {
		old.ended.Store(true)
	}
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
		if looked++; now.Sub(d.sent) >= d.holds || looked == 8 {
			d.ended.Store(true)
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
	if d := s.of[all]; d != nil {
		d.ended.Store(true)
		delete(s.of, all)
		c.held.Add(-1)
	}
}
