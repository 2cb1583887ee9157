// Package topkeys finds the keys that are denied most and those that are used most, in bounded
// memory, with a sketch of Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, 2005).
//
// A sketch has a fixed number of counters. A key without one takes over the counter
// with the least count, and that count becomes its error. So a count is never too low,
// and too high by its error at most. With 512 counters, a key with more than 1/512 of the
// calls always has a counter.
//
// Denials are few, and all are counted. Uses are as many as decisions: above sampledRate a
// second a sketch counts one use in 2, 4, 8 …, with that weight, so a decision never waits for
// the lock of the sketch. These counts are estimates.
//
// The trade-off: keys are kept for up to two periods of ten minutes. They are personal
// data, for operators only, and never go into logs or metrics. Keys that are denied
// equally often, each seldom, differ by their errors only. One lock protects a sketch;
// several stripes with a lock each would need more counters for the same promise.
package topkeys

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	randv2 "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/shorten"
)

// period is how long a sketch counts before its counters become those of the period before.
// A Report covers the current period and the one before.
const period = 10 * time.Minute

// Sketch counts denials or uses of the keys of one policy. It is safe for concurrent use.
type Sketch struct {
	seed   maphash.Seed
	slots  int // counters
	form   Form
	weight atomic.Int64 // one use in so many is counted, a power of two; 0 = all

	mu       sync.Mutex // protects the following
	now      counters
	before   counters // those of the period before
	began    int64    // the current period, microseconds since 1970; 0 = no call yet
	second   int64    // the second of the last use, since 1970
	inSecond int64    // uses that were counted in that second, by the present weight
}

// Form is the form in which keys are kept and shown.
type Form uint8

const (
	Shown  Form = iota // the values, the first maxValue bytes of each
	Hashed             // a hash of each value, with a secret of the process
	Off                // no key is kept; New does not take it
)

// String returns the form's word.
func (f Form) String() string { return [...]string{"shown", "hashed", "off"}[f] }

// New returns a sketch of as many counters as slots, at least 1. It takes no memory before
// the first call.
func New(slots int, form Form) *Sketch {
	return &Sketch{seed: maphash.MakeSeed(), slots: max(slots, 1), form: form}
}

// Add counts a denial of the key at an instant, in microseconds since 1970. It keeps no
// reference to the key. It allocates only while the sketch grows and, in form Hashed,
// for a key without a counter.
func (s *Sketch) Add(key weir.Key, at int64) {
	id := s.id(&key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(&key, id, 1, at)
}

// sampledRate is the number of uses a second up to which all are counted.
const sampledRate = 250

// maxWeight bounds the weight of a use.
const maxWeight = 1 << 20

// Weight returns the weight with which to count the next use by [Sketch.AddUse]; 0 if it is not
// in the sample. It takes no lock and reads no clock.
func (s *Sketch) Weight() int64 {
	weight := s.weight.Load()
	switch {
	case weight <= 1:
		return 1
	case randv2.Uint64()&uint64(weight-1) == 0: // a weight is a power of two
		return weight
	}
	return 0
}

// AddUse counts a use of the key with a weight of Weight. It keeps no reference to the key.
func (s *Sketch) AddUse(key *weir.Key, weight, at int64) {
	id := s.id(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(key, id, weight, at)
	s.now.weight = max(s.now.weight, weight)
	s.paceLocked(at / time.Second.Microseconds())
}

// paceLocked doubles the weight when a second has had sampledRate counted uses, and halves it for
// each second with less than a quarter of that.
func (s *Sketch) paceLocked(second int64) {
	if second != s.second {
		weight := max(s.weight.Load(), 1)
		if s.inSecond < sampledRate/4 {
			idle := max(min(second-s.second, 63), 1)
			s.weight.Store(max(weight>>idle, 1))
		}
		s.second = second
		s.inSecond = 0
	}
	s.inSecond++
	if s.inSecond >= sampledRate {
		s.weight.Store(min(2*max(s.weight.Load(), 1), maxWeight))
		s.inSecond = 0
	}
}

// addLocked counts n calls of a key with its id.
func (s *Sketch) addLocked(key *weir.Key, id uint64, n, at int64) {
	s.rotate(at)
	if c, isNew := s.now.add(id, n, s.slots); isNew {
		c.text = s.appendKey(c.text[:0], key)
	}
}

// id returns a hash of the key. Keys with the same id count as one; with 2^64 ids that a
// caller cannot foresee, that is negligible.
func (s *Sketch) id(key *weir.Key) uint64 {
	var h uint64
	for i := range key.Len() {
		h = h*0x9E3779B97F4A7C15 + maphash.String(s.seed, key.Value(i)) + 1
	}
	return h
}

// rotate begins a period when the current one is over, and starts again after a clock
// step back of more than a period.
func (s *Sketch) rotate(at int64) {
	age := at - s.began
	switch {
	case s.began == 0:
		s.began = at
	case age >= 2*period.Microseconds() || age <= -period.Microseconds():
		s.before = counters{}
		s.now = counters{}
		s.began = at
	case age >= period.Microseconds():
		s.before = s.now
		s.now = counters{}
		s.began += period.Microseconds()
	}
}

// counter counts the calls of one key.
type counter struct {
	id   uint64
	n    int64  // calls, never too low
	err  int64  // the most by which n is too high
	text []byte // the key, by appendKey
}

// counters are the counters of one period. A search among these few for the least count takes
// less time than to keep them as a heap, in which places change with every call.
type counters struct {
	all    []counter
	at     map[uint64]int // ids to places in all
	total  int64          // calls of all keys
	weight int64          // the greatest weight of a use; 0 = none

	low  int64 // the least count at the last search: none is less, because counts only grow
	last int   // the place that it found
}

// add counts n calls. A new counter has the memory of another one for its text.
func (c *counters) add(id uint64, n int64, slots int) (_ *counter, isNew bool) {
	c.total += n
	if i, ok := c.at[id]; ok {
		c.all[i].n += n
		return &c.all[i], false
	}
	if c.at == nil {
		c.at = make(map[uint64]int)
	}
	i := len(c.all)
	least := int64(0)
	if i < slots {
		c.all = append(c.all, counter{})
	} else {
		i = c.least()
		delete(c.at, c.all[i].id)
		least = c.all[i].n
	}
	c.all[i] = counter{id: id, n: least + n, err: least, text: c.all[i].text}
	c.at[id] = i
	return &c.all[i], true
}

// least returns the place of a counter with the least count, when every counter is taken. Many
// have that count as a rule, so it searches on from the last one: BenchmarkAdd.
func (c *counters) least() int {
	place := c.last
	for range c.all {
		c.last++
		if c.last == len(c.all) {
			c.last = 0
		}
		if n := c.all[c.last].n; n < c.all[place].n {
			place = c.last
		}
		if c.all[place].n == c.low {
			break
		}
	}
	c.low = c.all[place].n
	c.last = place
	return place
}

// floor returns the most calls of a key without a counter: in a full set, the least count
// of the others.
func (c *counters) floor(slots int) int64 {
	if len(c.all) < slots {
		return 0
	}
	return c.all[c.least()].n
}

// Report is the content of a sketch.
type Report struct {
	Since  time.Time // the beginning of the count; zero without a call
	Total  int64     // the calls of all keys
	Weight int64     // the greatest weight of a use: above 1 the counts of uses are estimates
	Top    []Entry   // by Least, the highest first
}

// Entry is a key with its calls.
type Entry struct {
	Values  []string // in the order of the policy's dimensions; hashes in form Hashed
	Clipped bool     // a value is longer than shown
	Count   int64    // never too low, unless it is an estimate
	Error   int64    // the most by which Count is too high
}

// Least returns the least number of calls of the key.
func (e *Entry) Least() int64 { return e.Count - e.Error }

// Top returns the n keys with the most calls in the current period and the one before,
// as of now. It ranks them by Least: when a million keys are denied once each, their
// shared counters reach thousands, of which all but one is error.
func (s *Sketch) Top(n int, now time.Time) (r Report) {
	s.mu.Lock()
	if s.began > 0 {
		s.rotate(now.UnixMicro())
	}
	r.Total = s.now.total + s.before.total
	r.Weight = max(s.now.weight, s.before.weight)
	if r.Total > 0 {
		r.Since = time.UnixMicro(s.began)
	}
	if s.before.total > 0 {
		r.Since = r.Since.Add(-period)
	}
	r.add(&s.now, &s.before, s.slots)
	r.add(&s.before, &s.now, s.slots)
	s.mu.Unlock()
	slices.SortStableFunc(r.Top, func(a, b Entry) int {
		return cmp.Or(
			cmp.Compare(b.Least(), a.Least()),
			cmp.Compare(b.Count, a.Count),
			slices.Compare(a.Values, b.Values),
		)
	})
	r.Top = r.Top[:min(max(n, 0), len(r.Top))]
	return r
}

// add adds the keys of a period, with their counts in the other one. A key that has no counter
// there may have had as many calls as its floor, or none.
func (r *Report) add(c, other *counters, slots int) {
	floor := other.floor(slots)
	isSecond := len(r.Top) > 0
	for _, own := range c.all {
		before := counter{n: floor, err: floor}
		if i, known := other.at[own.id]; known {
			if isSecond {
				continue // it is in the report
			}
			before = other.all[i]
		}
		e := Entry{Count: own.n + before.n, Error: own.err + before.err}
		e.Values, e.Clipped = values(own.text)
		r.Top = append(r.Top, e)
	}
}

// maxValue is the most bytes that are kept of a value.
const maxValue = 64

// secret is mixed into hashes, so that trying all addresses does not reveal one.
var secret = sync.OnceValue(func() (s [32]byte) {
	rand.Read(s[:])
	return s
})

// appendKey appends each value behind a byte of twice its length, plus 1 for a value
// that was cut.
func (s *Sketch) appendKey(b []byte, key *weir.Key) []byte {
	for i := range key.Len() {
		v := key.Value(i)
		cut := byte(0)
		if s.form == Hashed {
			v = Hash(v)
		} else if len(v) > maxValue {
			v = shorten.Cut(v, maxValue)
			cut = 1
		}
		b = append(b, byte(len(v))<<1|cut)
		b = append(b, v...)
	}
	return b
}

// Hash returns 16 hexadecimal digits for a value of a key. Equal values have equal hashes
// within one process only.
func Hash(v string) string {
	salt := secret()
	sum := sha256.Sum256(append(salt[:], v...))
	return hex.EncodeToString(sum[:8])
}

// values is the inverse of appendKey.
func values(b []byte) (values []string, clipped bool) {
	for len(b) > 0 {
		n := int(b[0] >> 1)
		clipped = clipped || b[0]&1 == 1
		values = append(values, string(b[1:1+n]))
		b = b[1+n:]
	}
	return values, clipped
}
