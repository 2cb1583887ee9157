package replay

import "time"

// Timeline counts decisions by slots of equal width. A slot begins at a multiple of its
// width since 1970.
type Timeline struct {
	Start   time.Time     // begin of the first slot, in UTC; zero without decisions
	Width   time.Duration // width of a slot: a round number of seconds, minutes, hours or days
	Allowed []int64       // by slot, at most 256
	Denied  []int64       // by slot, as many as Allowed
}

const (
	timelineSlots = 256
	second        = 1_000_000
)

// widths are those of slots in seconds, each a multiple of the one before. The last one doubles.
var widths = [...]int64{1, 2, 10, 30, 60, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 86_400}

// widthOf returns a width by its index.
func widthOf(i uint) int64 {
	last := uint(len(widths) - 1)
	if i <= last {
		return widths[i]
	}
	return widths[last] << (i - last)
}

// Slots counts decisions for a [Timeline]. Its slots become wider before it has more than 256. The
// zero Slots has none.
type Slots struct {
	From, To int64 // the least and the greatest instant, microseconds since 1970

	width  uint // the index of the width of a slot
	counts *[timelineSlots]slotCount
}

// slotCount counts the decisions in a slot. That of a slot has the index slot % timelineSlots, so
// that the first slot can move.
type slotCount struct{ allowed, denied int64 }

// slot returns the slot of an instant.
func (t *Slots) slot(at int64) int64 { return at / (second * widthOf(t.width)) }

// Index returns the index in a [Timeline] of an instant in From … To.
func (t *Slots) Index(at int64) int { return int(t.slot(at) - t.slot(t.From)) }

// Add counts a decision.
func (t *Slots) Add(at int64, denied bool) {
	if t.counts == nil {
		t.From = at
		t.To = at
		t.counts = new([timelineSlots]slotCount)
	}
	from, to := min(t.From, at), max(t.To, at)
	for t.slot(to)-t.slot(from) >= timelineSlots {
		t.widen()
	}
	t.From = from
	t.To = to
	c := &t.counts[t.slot(at)%timelineSlots]
	if denied {
		c.denied++
	} else {
		c.allowed++
	}
}

// widen merges neighbouring slots.
func (t *Slots) widen() {
	before := t.counts
	first, last := t.slot(t.From), t.slot(t.To)
	ratio := widthOf(t.width+1) / widthOf(t.width)
	t.counts = new([timelineSlots]slotCount)
	t.width++
	for slot := first; slot <= last; slot++ {
		n := before[slot%timelineSlots]
		sum := &t.counts[slot/ratio%timelineSlots]
		sum.allowed += n.allowed
		sum.denied += n.denied
	}
}

// Timeline returns the counts.
func (t *Slots) Timeline() Timeline {
	width := widthOf(t.width)
	s := Timeline{Width: time.Duration(width) * time.Second}
	if t.counts == nil {
		return s
	}
	first := t.slot(t.From)
	slots := t.Index(t.To) + 1
	s.Start = time.Unix(first*width, 0).UTC()
	s.Allowed = make([]int64, slots)
	s.Denied = make([]int64, slots)
	for i := range slots {
		n := t.counts[(first+int64(i))%timelineSlots]
		s.Allowed[i] = n.allowed
		s.Denied[i] = n.denied
	}
	return s
}
