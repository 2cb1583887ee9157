package replay

import "time"

// Timeline counts decisions by slots of equal width. A slot begins at a multiple of its
// width since 1970.
type Timeline struct {
	Start   time.Time     // begin of the first slot, in UTC; zero without decisions
	Width   time.Duration // width of a slot: 1 s, or a power of two of it
	Allowed []int64       // by slot, at most 256
	Denied  []int64       // by slot, as many as Allowed
}

const (
	timelineSlots = 256
	second        = 1_000_000
)

// Slots counts decisions for a [Timeline]. It doubles the width of its slots before it has
// more than 256. The zero Slots has none.
type Slots struct {
	From, To int64 // the least and the greatest instant, microseconds since 1970

	shift  uint // a slot has 2^shift seconds
	counts map[slotCount]int64
}

// slotCount names the number of the decisions in a slot that are denied, or allowed.
type slotCount struct {
	slot   int64
	denied bool
}

// slot returns the slot of an instant.
func (t *Slots) slot(at int64) int64 { return at / second >> t.shift }

// Index returns the index in a [Timeline] of an instant in From … To.
func (t *Slots) Index(at int64) int { return int(t.slot(at) - t.slot(t.From)) }

// Add counts a decision.
func (t *Slots) Add(at int64, denied bool) {
	if t.counts == nil {
		t.From, t.To, t.counts = at, at, map[slotCount]int64{}
	}
	t.From, t.To = min(t.From, at), max(t.To, at)
	for t.Index(t.To) >= timelineSlots {
		t.double()
	}
	t.counts[slotCount{t.slot(at), denied}]++
}

// double merges pairs of slots.
func (t *Slots) double() {
	before := t.counts
	t.counts, t.shift = map[slotCount]int64{}, t.shift+1
	for of, n := range before {
		t.counts[slotCount{of.slot >> 1, of.denied}] += n
	}
}

// Timeline returns the counts.
func (t *Slots) Timeline() Timeline {
	s := Timeline{Width: time.Second << t.shift}
	if t.counts == nil {
		return s
	}
	first, n := t.slot(t.From), t.Index(t.To)+1
	s.Start, s.Allowed, s.Denied = time.Unix(first<<t.shift, 0).UTC(), make([]int64, n), make([]int64, n)
	for of, n := range t.counts {
		if of.denied {
			s.Denied[of.slot-first] = n
		} else {
			s.Allowed[of.slot-first] = n
		}
	}
	return s
}
