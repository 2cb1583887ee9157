// Package topkeys finds the keys that are denied most, in bounded memory: a sketch
// of Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent
// and Top-k Elements in Data Streams, 2005).
//
// A sketch has a fixed number of counters. A key that has none takes over the one
// with the least count, and its count as its error: so what a counter says is never
// too little, and too much by its error at most. A key with more than 1/64 of a
// stripe's denials always has a counter where there are 64 to a stripe.
//
// The bargain: keys are kept for up to two periods of ten minutes, so this is
// personal data, for operators alone; nothing of it goes into logs or metrics. Keys
// denied equally often, each seldom, are told apart by their errors only.
package topkeys

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

const (
	// stripes are locked one by one. A key is always in the same one.
	stripes = 8

	// period is how long a sketch counts before it becomes the one before; a Report
	// covers the present one and the one before.
	period = 10 * time.Minute
)

// Sketch counts denials of the keys of one policy. It is safe for concurrent use.
type Sketch struct {
	seed  maphash.Seed
	slots int // in each stripe
	form  Form
	parts [stripes]stripe
}

// Form is what is kept of a key.
type Form uint8

// The forms.
const (
	Shown  Form = iota // its values, the first maxValue bytes of each
	Hashed             // a hash of each value, by a secret that ends with the process
)

// New returns a sketch of about slots counters, 8 at least. It takes no memory
// before the first denial.
func New(slots int, form Form) *Sketch {
	return &Sketch{seed: maphash.MakeSeed(), slots: max(slots/stripes, 1), form: form}
}

// Add counts a denial of the key at an instant, in microseconds since 1970. It keeps
// nothing of the key. It allocates only while the sketch grows and, in form Hashed,
// for a key that has no counter yet.
func (s *Sketch) Add(key weir.Key, at int64) {
	id := s.id(&key)
	p := &s.parts[id%stripes]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(at)
	p.now.add(id, s.slots, func(text []byte) []byte { return s.appendKey(text, &key) })
}

// id tells keys apart. Two keys of one id would be counted as one: of 2^64 ids that
// a caller cannot foresee, that is nobody's worry.
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
	began  int64    // the present period, microseconds since 1970; 0 = no denial yet
	_      [64]byte // keeps the locks of stripes off each other's cache lines
}

// turn begins another period when the present one is over. A clock that was set back
// by more than a period begins anew as well.
func (p *stripe) turn(at int64) {
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
