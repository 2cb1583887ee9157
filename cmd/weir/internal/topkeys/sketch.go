// Package topkeys finds the keys that are denied most, in bounded memory, with a sketch
// of Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and
// Top-k Elements in Data Streams, 2005).
//
// A sketch has a fixed number of counters. A key without one takes over the counter
// with the least count, and that count becomes its error. So a count is never too low,
// and too high by its error at most. With 64 counters to a stripe, a key with more than
// 1/64 of the stripe's denials always has a counter.
//
// The trade-off: keys are kept for up to two periods of ten minutes. They are personal
// data, for operators only, and never go into logs or metrics. Keys that are denied
// equally often, each seldom, differ by their errors only.
package topkeys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/shorten"
)

const (
	// stripes are locked one by one. A key is always in the same stripe.
	stripes = 8

	// period is how long a sketch counts before its counters become those of the
	// period before. A Report covers the current period and the one before.
	period = 10 * time.Minute
)

// Sketch counts denials of the keys of one policy. It is safe for concurrent use.
type Sketch struct {
	seed  maphash.Seed
	slots int // in each stripe
	form  Form
	parts [stripes]stripe
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

// New returns a sketch of about slots counters, at least 8. It takes no memory before
// the first denial.
func New(slots int, form Form) *Sketch {
	return &Sketch{seed: maphash.MakeSeed(), slots: max(slots/stripes, 1), form: form}
}

// Add counts a denial of the key at an instant, in microseconds since 1970. It keeps no
// reference to the key. It allocates only while the sketch grows and, in form Hashed,
// for a key without a counter.
func (s *Sketch) Add(key weir.Key, at int64) {
	id := s.id(&key)
	p := &s.parts[id%stripes]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate(at)
	p.now.add(id, s.slots, func(text []byte) []byte { return s.appendKey(text, &key) })
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

// stripe is a part of a sketch.
type stripe struct {
	mu     sync.Mutex // protects the following
	now    counters
	before counters // of the period before
	began  int64    // the current period, microseconds since 1970; 0 = no denial yet
	_      [64]byte // keeps the locks of stripes on different cache lines
}

// rotate begins a period when the current one is over, and starts again after a clock
// step back of more than a period.
func (p *stripe) rotate(at int64) {
	age := at - p.began
	switch {
	case p.began == 0:
		p.began = at
	case age >= 2*period.Microseconds() || age <= -period.Microseconds():
		p.now.reset()
		p.before.reset()
		p.began = at
	case age >= period.Microseconds():
		p.now, p.before = p.before, p.now
		p.now.reset()
		p.began += period.Microseconds()
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
		v, cut := key.Value(i), byte(0)
		if s.form == Hashed {
			v = Hash(v)
		} else if len(v) > maxValue {
			v, cut = shorten.Cut(v, maxValue), 1
		}
		b = append(append(b, byte(len(v))<<1|cut), v...)
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
