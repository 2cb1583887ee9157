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

	shift  uint                // a slot has 2^shift seconds
	counts map[int64]*[2]int64 // by slot: allowed and denied
}

// slot returns the slot of an instant.
func (t *Slots) slot(at int64) int64 { return at / second >> t.shift }

// Index returns the index in a [Timeline] of an instant in From … To.
func (t *Slots) Index(at int64) int { return int(t.slot(at) - t.slot(t.From)) }

// Add counts a decision.
func (t *Slots) Add(at int64, denied bool) {
	if t.counts == nil {
		t.From, t.To, t.counts = at, at, map[int64]*[2]int64{}
	}
	t.From, t.To = min(t.From, at), max(t.To, at)
	for t.Index(t.To) >= timelineSlots {
		t.double()
	}
	kind := 0
	if denied {
		kind = 1
	}
	t.at(t.slot(at))[kind]++
}

// at returns the counts of a slot.
func (t *Slots) at(slot int64) *[2]int64 {
	n := t.counts[slot]
	if n == nil {
		n = new([2]int64)
		t.counts[slot] = n
	}
	return n
}

// double merges pairs of slots.
func (t *Slots) double() {
	before := t.counts
	t.counts, t.shift = map[int64]*[2]int64{}, t.shift+1
	for slot, n := range before {
		sum := t.at(slot >> 1)
		sum[0], sum[1] = sum[0]+n[0], sum[1]+n[1]
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
	for slot, n := range t.counts {
		s.Allowed[slot-first], s.Denied[slot-first] = n[0], n[1]
	}
	return s
}
