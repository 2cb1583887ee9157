package weirredis

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
)

// denialCache answers retries after a denial without the server. Its answers are marked
// Cached (R8).
//
// A denial stays the same until an entry leaves or the minimum interval has passed, if no
// call writes to one of its histories. Its age is measured from before its request was
// sent, on this process's monotonic clock, so no other machine's clock matters. The instant
// of a cached answer is the instant of the reply plus the time since the reply arrived. It is
// never later than the server's clock. So a wait is never too short, and no later reply of the
// server has an earlier instant.
//
// Every write of this engine to a history ends the denials that depend on it. A denial is not
// cached if such a write came while its reply was under way. A write of another process
// becomes visible when the denial expires, after ttl at the latest.
type denialCache struct {
	ttl   time.Duration                 // most age of a denial; 0 turns the cache off
	since func(time.Time) time.Duration // this process's monotonic clock
	seed  maphash.Seed
	size  atomic.Int64 // number of cached denials; an empty cache costs one load

	// writes counts this engine's writes to histories, by the hash of their keys.
	// Histories of one hash share a counter; that only ends more denials.
	writes [1 << 14]atomic.Uint32

	shards [16]denialShard

	// latest has recent denials of the shards, by rules and key. They are found without a
	// lock and without packing the request.
	latest [1024]atomic.Pointer[cachedDenial]
}

type denialShard struct {
	mu      sync.Mutex // protects the following
	denials map[string]*cachedDenial
}

// cachedDenial is the latest denial for one tuple of keys. It is not changed after it was
// added.
type cachedDenial struct {
	arg       [argBytes]byte
	plan      string
	sent      time.Time
	took      time.Duration // time from sent until the reply arrived
	validFor  time.Duration // time from sent
	histories []uint16      // the indices of the histories' counters in denialCache.writes
	version   uint32        // sum of those counters before the request was sent
	reply     reply

	// The call, which latestDenial compares.
	rules *engine.Compiled
	key   engine.Key
	n     int64
	waits bool // it had a MaxWait; then Partial is all or nothing (R18)
}

// defaultCacheTTL bounds how long a denial outlives a refund by another process. A key that
// is denied all the time then costs the server ten calls a second.
const defaultCacheTTL = 100 * time.Millisecond

// maxShard bounds the denials of each of the 16 shards.
const maxShard = 4096

// maxValid bounds reply.validFor in microseconds, so that the time.Duration cannot
// overflow.
const maxValid = 1 << 50

func newDenialCache(ttl time.Duration) *denialCache {
	return &denialCache{ttl: ttl, since: time.Since, seed: maphash.MakeSeed()}
}

// latestDenial answers an attempt now from the latest denial of its key, if rules, key and
// units are the same. It reports whether it did. It costs two hashes and one reading of the
// clock.
func (c *denialCache) latestDenial(of *engine.Call) bool {
	if c.size.Load() == 0 {
		return false
	}
	cached := c.slot(of.Rules, &of.Key).Load()
	if cached == nil || cached.rules != of.Rules || cached.n != of.N {
		return false
	}
	if cached.waits != (of.MaxWait > 0) {
		return false
	}
	for i := range of.Key.Len() {
		if of.Key.Value(i) != cached.key.Value(i) {
			return false
		}
	}
	r, ok := c.repeat(cached)
	if ok = ok && r.exceeds(of.MaxWait); ok {
		of.Result = r.result(of.Rules)
	}
	return ok
}

// exceeds reports whether a denial is one for a caller that may wait for so many microseconds.
func (r *reply) exceeds(maxWait int64) bool {
	return maxWait == 0 || r.wait < 0 || r.wait > maxWait
}

// slot returns the place in latest for a key under some rules.
func (c *denialCache) slot(p *engine.Compiled, k *engine.Key) *atomic.Pointer[cachedDenial] {
	hash := maphash.String(c.seed, p.Name)
	for i := range k.Len() {
		hash = hash*31 + maphash.String(c.seed, k.Value(i))
	}
	return &c.latest[hash%uint64(len(c.latest))]
}

// repeat returns the reply of d as of now, and reports whether d is still valid.
func (c *denialCache) repeat(d *cachedDenial) (r reply, ok bool) {
	sum := uint32(0)
	for _, i := range d.histories {
		sum += c.writes[i].Load()
	}
	if sum != d.version {
		return r, false
	}
	age := c.since(d.sent)
	if age >= d.validFor {
		return r, false
	}
	r = d.reply.after((age - d.took).Microseconds())
	r.cached = true
	return r, true
}

// version returns a number that increases with every write of this engine to a history
// of req. A denial is added with the version from before its request was sent.
func (c *denialCache) version(req *request) (sum uint32) {
	if c.ttl == 0 {
		return 0
	}
	if req.several == nil {
		return c.writes[c.counter(req.joined)].Load()
	}
	for _, key := range req.several {
		sum += c.writes[c.counter(key)].Load()
	}
	return sum
}

// counter returns the index of a history's counter in writes.
func (c *denialCache) counter(key string) uint16 {
	return uint16(maphash.String(c.seed, key) % uint64(len(c.writes)))
}

// find answers req with a cached denial. It removes a denial that is not valid any more.
func (c *denialCache) find(req *request) (r reply, ok bool) {
	if c.size.Load() == 0 {
		return r, false
	}
	s := c.shard(req.joined)
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.denials[req.joined]
	if d == nil {
		return r, false
	}
	r, ok = c.repeat(d)
	if !ok {
		delete(s.denials, req.joined)
		c.size.Add(-1)
		return r, false
	}
	if d.arg != req.arg || d.plan != req.plan.text {
		return reply{}, false
	}
	return r, r.exceeds(req.maxWait)
}

func (c *denialCache) shard(joined string) *denialShard {
	return &c.shards[maphash.String(c.seed, joined)%uint64(len(c.shards))]
}

// after returns the reply to the same request us microseconds later, without a write meanwhile.
func (r *reply) after(us int64) reply {
	c := *r
	c.at += us
	c.validFor -= us
	if c.wait > 0 {
		c.wait -= us
	}
	if c.reset > 0 { // otherwise no unit counts
		c.reset = max(0, c.reset-us)
	}
	if c.blocked > 0 { // validFor is no longer
		c.blocked = max(0, c.blocked-us)
	}
	return c
}

// replied ends the cached denials of the histories that req wrote to, or may have
// written to. r is the reply to req, and err its error.
func (c *denialCache) replied(req *request, r *reply, err error) {
	if req.writes() && req.wrote(r, err) {
		c.wrote(req.keys()...)
	}
}

// wrote reports whether a request that can write may have written. r is its reply, and err its
// error.
func (req *request) wrote(r *reply, err error) bool {
	decides := req.op == engine.Attempt || req.op == engine.Probe
	if err != nil || !decides || r.began {
		return true
	}
	return req.op == engine.Attempt && (r.granted > 0 || req.mode == engine.CountDenied)
}

// wrote ends all denials that depend on one of the histories. It is called after the
// server's reply and before the writing caller returns.
func (c *denialCache) wrote(keys ...string) {
	if c.ttl == 0 {
		return
	}
	for _, key := range keys {
		c.writes[c.counter(key)].Add(1)
	}
}

// add caches an answer if it is a denial that can be repeated. A denial by a concurrency
// limit is not cached: a settlement by another process may end it at any time (R17). A denial of
// a limit with a block can be: the attempt began the block or found it running, so a repeated one
// changes nothing (R20). Peeks and probes are never cached, because an attempt may begin a block.
func (c *denialCache) add(of *engine.Call, a *answer) {
	r := &a.reply
	if c.ttl == 0 || !a.canCache() || !r.isRepeatable(of.Rules) {
		return
	}
	if a.version != c.version(&a.request) {
		return // a call of this process has written meanwhile
	}
	d := &cachedDenial{
		arg:     a.arg,
		plan:    a.plan.text,
		sent:    a.sent,
		took:    c.since(a.sent),
		version: a.version,
		reply:   *r,
		rules:   of.Rules,
		key:     cloneKey(&of.Key),
		n:       a.n,
		waits:   a.maxWait > 0,
	}
	d.validFor = min(c.ttl, time.Duration(min(r.validFor, maxValid))*time.Microsecond)
	for _, key := range a.keys() {
		d.histories = append(d.histories, c.counter(key))
	}
	c.store(a.joined, d)
	c.slot(of.Rules, &of.Key).Store(d)
}

// isRepeatable reports whether a reply is a denial that stays the same for a while.
func (r *reply) isRepeatable(rules *engine.Compiled) bool {
	denied := r.bound > 0 && r.granted == 0 && !r.replayed
	return denied && r.validFor > 0 && rules.Limits[r.bound-1].Kind != engine.KindConcurrency
}

// cloneKey returns the key with copies of its values. The caller's values may be parts of a
// large string, or of a buffer that is reused.
func cloneKey(k *engine.Key) engine.Key {
	values := make([]string, k.Len())
	for i := range values {
		values[i] = strings.Clone(k.Value(i))
	}
	return engine.K(values...)
}

func (c *denialCache) store(joined string, d *cachedDenial) {
	s := c.shard(joined)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denials == nil {
		s.denials = map[string]*cachedDenial{}
	}
	before := len(s.denials)
	if before >= maxShard {
		s.evict(d.sent)
	}
	s.denials[joined] = d
	c.size.Add(int64(len(s.denials) - before))
}

// evict looks at eight denials. It removes the expired ones, and the eighth in any case.
func (s *denialShard) evict(now time.Time) {
	seen := 0
	for joined, d := range s.denials {
		if seen++; now.Sub(d.sent) >= d.validFor || seen == 8 {
			delete(s.denials, joined)
		}
		if seen == 8 {
			return
		}
	}
}
