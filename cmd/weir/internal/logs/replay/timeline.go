package replay

import (
	"slices"
	"time"
)

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

	shift  uint       // a slot has 2^shift seconds
	first  int64      // the slot of counts[0]
	counts [][2]int64 // allowed and denied
}

// slot returns the slot of an instant.
func (t *Slots) slot(at int64) int64 { return at / second >> t.shift }

// Index returns the index in a [Timeline] of an instant in From … To.
func (t *Slots) Index(at int64) int { return int(t.slot(at) - t.first) }

// Add counts a decision.
func (t *Slots) Add(at int64, denied bool) {
	if len(t.counts) == 0 {
		t.From, t.To = at, at
	}
	if i := t.Index(at); i < 0 || i >= len(t.counts) {
		t.grow(at)
	}
	kind := 0
	if denied {
		kind = 1
	}
	t.counts[t.Index(at)][kind]++
	t.From, t.To = min(t.From, at), max(t.To, at)
}

// grow adds the slots up to that of an instant.
func (t *Slots) grow(at int64) {
	if len(t.counts) == 0 {
		t.first = t.slot(at)
	}
	for t.slot(max(at, t.To))-t.slot(min(at, t.From)) >= timelineSlots {
		t.double()
	}
	slot := t.slot(at)
	if slot < t.first {
		t.counts = slices.Concat(make([][2]int64, t.first-slot), t.counts)
		t.first = slot
	}
	for t.first+int64(len(t.counts)) <= slot {
		t.counts = append(t.counts, [2]int64{})
	}
}

// double merges pairs of slots.
func (t *Slots) double() {
	merged := make([][2]int64, 0, len(t.counts)/2+1)
	for i, n := range t.counts {
		at := int((t.first+int64(i))>>1 - t.first>>1)
		if at == len(merged) {
			merged = append(merged, [2]int64{})
		}
		merged[at][0] += n[0]
		merged[at][1] += n[1]
	}
	t.counts, t.first, t.shift = merged, t.first>>1, t.shift+1
}

// Timeline returns the counts.
func (t *Slots) Timeline() Timeline {
	s := Timeline{Width: time.Second << t.shift}
	if len(t.counts) > 0 {
		s.Start = time.Unix(t.first<<t.shift, 0).UTC()
	}
	for _, n := range t.counts {
		s.Allowed, s.Denied = append(s.Allowed, n[0]), append(s.Denied, n[1])
	}
	return s
}
