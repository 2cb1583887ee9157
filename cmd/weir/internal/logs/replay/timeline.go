package replay

import (
	"slices"
	"time"
)

// Timeline counts decisions by slots of equal width. A slot begins at a multiple of its
// width since 1970.
type Timeline struct {
	Start   time.Time     // of the first slot, in UTC; zero without decisions
	Width   time.Duration // of a slot: 1 s, or a power of two of it
	Allowed []int64       // by slot, at most 256
	Denied  []int64       // by slot, as many as Allowed
}

const (
	timelineSlots = 256
	second        = 1_000_000
)

// slotOf returns the slot of an instant. A slot has 2^shift seconds.
func slotOf(at int64, shift uint) int64 { return at / second >> shift }

// startOf returns the instant at which a slot begins.
func startOf(slot int64, shift uint) time.Time { return time.Unix(slot<<shift, 0).UTC() }

func widthOf(shift uint) time.Duration { return time.Second << shift }

// timeline is a [Timeline] that is being counted. It doubles the width of its slots before
// it has more than timelineSlots.
type timeline struct {
	shift    uint
	first    int64      // the slot of counts[0]
	counts   [][2]int64 // allowed and denied
	from, to int64      // of the instants
}

// add counts a decision.
func (t *timeline) add(at int64, denied bool) {
	i := slotOf(at, t.shift) - t.first
	if i < 0 || i >= int64(len(t.counts)) {
		i = t.grow(at)
	}
	if denied {
		t.counts[i][1]++
	} else {
		t.counts[i][0]++
	}
	t.from, t.to = min(t.from, at), max(t.to, at)
}

// grow adds the slots up to that of an instant, and returns its index.
func (t *timeline) grow(at int64) int64 {
	if len(t.counts) == 0 {
		t.first, t.from, t.to = slotOf(at, t.shift), at, at
	}
	for !fits(min(at, t.from), max(at, t.to), t.shift, timelineSlots) {
		t.double()
	}
	slot := slotOf(at, t.shift)
	if slot < t.first {
		t.counts = slices.Concat(make([][2]int64, t.first-slot), t.counts)
		t.first = slot
	}
	for t.first+int64(len(t.counts)) <= slot {
		t.counts = append(t.counts, [2]int64{})
	}
	return slot - t.first
}

// fits reports whether at most most slots span from … to.
func fits(from, to int64, shift uint, most int64) bool {
	return slotOf(to, shift)-slotOf(from, shift) < most
}

// double merges pairs of slots.
func (t *timeline) double() {
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

// summary returns the counts.
func (t *timeline) summary() Timeline {
	s := Timeline{Width: widthOf(t.shift)}
	if len(t.counts) > 0 {
		s.Start = startOf(t.first, t.shift)
	}
	for _, n := range t.counts {
		s.Allowed, s.Denied = append(s.Allowed, n[0]), append(s.Denied, n[1])
	}
	return s
}
