package weirredis

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

// denials is a cache of denials, from which a retrying caller is answered without Redis.
//
// A denial holds until an entry leaves or a gap opens. Until then the answer stays the
// same unless another call writes to one of its histories. Durations are counted from
// before the question was sent, on this process's monotonic clock, so that no clock of
// another machine is needed.
//
// Every write of this engine to a history ends the denials that depend on it. Writes of
// other processes are noticed when the denial expires, after most at the latest.
type denials struct {
	most time.Duration // how long a denial is believed at most; 0 = none is remembered
	seed maphash.Seed
	held atomic.Int64 // denials remembered, so that a cache without any costs nothing

	// writes count this engine's writes to histories, each under the hash of its key.
	// Histories of one hash share a counter; that only ends more denials.
	writes [1 << 14]atomic.Uint32

	shards [16]denialShard

	// latest are denials that shards hold too. A repeated question is answered from here
	// without a lock, and without being encoded.
	latest [1024]atomic.Pointer[denied]
}

type denialShard struct {
	mu sync.Mutex // protects the following
	of map[string]*denied
}

// denied is one remembered denial: one question for each tuple of keys. It is not
// changed once it is remembered.
type denied struct {
	arg       string
	sent      time.Time
	holds     time.Duration // from then on
	histories []uint16      // indices of their counters in denials.writes
	version   uint32        // sum of those counters before the question was sent
	reply     reply

	// The question as its caller put it, when it is among the latest.
	plan *weir.Plan
	key  weir.Key
	n    int64
}

// shardDenials bounds the memory of the cache: 16 shards of so many.
const shardDenials = 4096

func newDenials(most time.Duration) *denials {
	return &denials{most: most, seed: maphash.MakeSeed()}
}

// counter returns the index of the counter of a history's writes.
func (c *denials) counter(key string) uint16 {
	return uint16(maphash.String(c.seed, key) % uint64(len(c.writes)))
}

// version returns a number that rises with every write of this engine to a history of q.
// A denial is remembered with the version from before its question was sent.
func (c *denials) version(q *question) (sum uint32) {
	if c.most == 0 {
		return 0
	}
	if q.several == nil {
		return c.writes[c.counter(q.all)].Load()
	}
	for _, key := range q.several {
		sum += c.writes[c.counter(key)].Load()
	}
	return sum
}

// wrote ends all denials that depend on one of the histories. It is called after the
// server has answered and before the caller of the write learns of it.
func (c *denials) wrote(keys ...string) {
	if c.most == 0 {
		return
	}
	for _, key := range keys {
		c.writes[c.counter(key)].Add(1)
	}
}

// current reports whether d still holds, and how long ago it was asked for.
func (c *denials) current(d *denied, since func(time.Time) time.Duration) (passed time.Duration, ok bool) {
	sum := uint32(0)
	for _, i := range d.histories {
		sum += c.writes[i].Load()
	}
	if sum != d.version {
		return 0, false
	}
	passed = since(d.sent)
	return passed, passed < d.holds
}

// place returns the slot of the latest denial of the key under a policy with this hash
// of its name.
func (c *denials) place(hash uint64, k *weir.Key) *atomic.Pointer[denied] {
	for i := range k.Len() {
		hash = hash*31 + maphash.String(c.seed, k.Value(i))
	}
	return &c.latest[hash%uint64(len(c.latest))]
}

// repeat answers an attempt now with the latest denial of its key, if plan, key and
// units are the same. It costs two hashes and a reading of the clock.
func (c *denials) repeat(p *weir.Plan, k *weir.Key, n int64, since func(time.Time) time.Duration) (d weir.Decision, ok bool) {
	if c.held.Load() == 0 {
		return d, false
	}
	hash := maphash.String(c.seed, p.Name())
	was := c.place(hash, k).Load()
	if was == nil || was.plan != p || was.n != n {
		return d, false
	}
	for i := range k.Len() {
		if k.Value(i) != was.key.Value(i) {
			return d, false
		}
	}
	passed, ok := c.current(was, since)
	if !ok {
		return d, false
	}
	r := was.reply.later(passed.Microseconds())
	return r.decision(p), true
}

func (c *denials) shard(all string) *denialShard {
	return &c.shards[maphash.String(c.seed, all)%uint64(len(c.shards))]
}

// recall answers q from memory if that can be done. A denial that no longer holds is
// forgotten.
func (c *denials) recall(q *question, since func(time.Time) time.Duration) (r reply, ok bool) {
	if c.held.Load() == 0 {
		return r, false
	}
	s := c.shard(q.all)
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.of[q.all]
	if d == nil {
		return r, false
	}
	passed, ok := c.current(d, since)
	if !ok {
		delete(s.of, q.all)
		c.held.Add(-1)
		return r, false
	}
	if d.arg != q.arg {
		return r, false
	}
	return d.reply.later(passed.Microseconds()), true
}

// later returns the reply so many microseconds later, with no write in between.
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

// note remembers the reply to q if it is a denial that can be answered again: it was
// sent at that time, when the histories had that version.
func (c *denials) note(p *weir.Plan, k *weir.Key, q *question, r *reply, version uint32, sent time.Time) {
	denial := r.bound > 0 && r.granted == 0
	if !denial || c.most == 0 || !q.canRecall() || r.stays <= 0 || version != c.version(q) {
		return
	}
	d := &denied{arg: q.arg, sent: sent, version: version, reply: *r, plan: p, key: copied(k), n: q.asked}
	d.holds = min(c.most, time.Duration(min(r.stays, maxStays))*time.Microsecond)
	for _, key := range q.keys() {
		d.histories = append(d.histories, c.counter(key))
	}
	c.remember(q.all, d)
	c.place(maphash.String(c.seed, p.Name()), k).Store(d)
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
			delete(s.of, all)
		}
		if looked == 8 {
			return
		}
	}
}
