package window

import "math"

// Reading is a place in the entries of a history, which is read in parts. The zero Reading
// is before all entries.
//
// Between two parts the history may change. Entries that are added come in a later part, and
// the reader drops entries before Front, which have left. A refund, a correction of the
// clock, and all else that changes entries in place, begin the reading anew.
type Reading struct {
	place  place
	end    int64 // of the entry before the place
	begins int   // of the reading
	number int64 // of the last one, in its arena
}

// maxBegins is the number of times that a reading begins. The last one is in one part, so
// that changes cannot hold it up for ever.
const maxBegins = 4

// Read calls visit with about n entries from a place on, n > 0, the oldest first, and moves
// the place. Of a bucket it visits none. It reports whether these entries are the first
// ones, so that parts before count no longer, and whether entries are left. Then the newest
// is one of them.
//
// An arena remembers one reading. Another one begins that one anew.
func (h *History) Read(a *Arena, r *Reading, n int, visit func(end, units int64)) (first, more bool) {
	if h.log.empty() {
		*r = Reading{}
		if h.Rate() == 0 && h.Total > 0 {
			visit(h.End, h.Total)
		}
		return true, false
	}
	if h.log.head.ref() == h.log.tail.ref() {
		n = perChunk // a place in a ring may move to another chunk
	}
	c := h.cursor(a)
	if first = r.place == 0 || a.reading.Load() != h || a.begun.Load() != r.number || h.Front > r.end; first {
		if r.begins++; r.begins == maxBegins {
			n = math.MaxInt
		}
		a.reading.Store(h)
		r.number = a.begun.Add(1)
	} else {
		c.ref, c.pos, c.chunk = r.place.ref(), r.place.pos(), a.At(r.place.ref())
		c.end, c.begun = r.end, true
	}
	for ; n > 0 && c.more(); n-- {
		if e := c.next(); e.units > 0 { // otherwise a mark of time
			visit(e.end, e.units)
		}
	}
	r.place, r.end = c.place(), c.end
	if more = c.more(); !more {
		*r = Reading{}
		a.changed(h)
	}
	return first, more
}

// changed ends the reading of a history in parts: its entries were changed other than by
// adding new ones and dropping those that have left.
func (a *Arena) changed(h *History) {
	if a.reading.Load() == h {
		a.reading.CompareAndSwap(h, nil)
	}
}
