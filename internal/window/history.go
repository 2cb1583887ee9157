package window

// History is what is remembered for one limit and one key: the instant of the
// newest recorded attempt, and entries of (end, units) in order of their ends,
// which never run back. No entry is without units.
//
// A single entry is (End, Total) and needs nothing else. Several stand in a log,
// the newest included; Front and End spare most decisions a look at it.
//
// Start from Empty, not from the zero History.
type History struct {
	Last  int64 // exact instant of the newest recorded attempt; the gap counts from it (R5)
	End   int64 // end of the newest entry, long ago without one
	Front int64 // end of the oldest entry, long ago without one
	Total int64 // units of all entries
	log   log   // empty, or all entries
}

const long = -1 << 60 // before every instant

// Empty is a history that remembers nothing.
var Empty = History{Last: long, End: long, Front: long}

// Chunks is the number of chunks that Add may take from the arena for an entry
// with that end: 0 or 1.
func (h *History) Chunks(end int64) int {
	switch {
	case h.Total == 0:
		return 0
	case h.log.empty():
		if end <= h.End {
			return 0
		}
		return 1
	case h.log.full(2):
		return 1
	}
	return 0
}

// abs returns the whole end of an entry from its lowest 48 bits. Every entry is
// within 2^48 us (8.9 years) before the newest one, since it counted when that
// was recorded and windows are at most 400 days and a cell.
func (h *History) abs(word uint64) int64 {
	return h.End - int64((uint64(h.End)-word>>unitBits)&endMask)
}

// entry is one entry as read from the log.
type entry struct {
	end   int64
	units int64
	words int
}

// next returns the entry at the cursor and moves on.
func (c *cursor) next(h *History) (entry, bool) {
	w := c.word()
	if w == nil {
		return entry{}, false
	}
	e := entry{end: h.abs(*w), units: int64(*w & wideUnits), words: 1}
	if e.units == wideUnits {
		e.units = int64(*c.word())
		e.words = 2
	}
	return e, true
}

// Used returns the units that count, which are those of entries with
// end > cutoff = now - Window (R3). dead is the number of words of the log that
// no longer do.
func (h *History) Used(a *Arena, cutoff int64) (used int64, dead int) {
	if h.Front > cutoff {
		return h.Total, 0
	}
	if h.End <= cutoff {
		return 0, 0
	}
	used = h.Total
	c := h.log.cursor(a)
	// Mostly a narrow entry or two of the first chunk: the newest entry counts, so
	// this ends before the log does.
	chunk := a.At(c.pos.ref())
	for pos := c.pos.pos(); pos < perChunk; pos++ {
		w := chunk.words[pos]
		if h.abs(w) > cutoff {
			return used, dead
		}
		if w&wideUnits == wideUnits {
			break
		}
		used -= int64(w & wideUnits)
		dead++
		c.pos += at(0, 1)
	}
	for {
		e, ok := c.next(h)
		if !ok || e.end > cutoff {
			return used, dead
		}
		used -= e.units
		dead += e.words
	}
}

// Prune forgets the entries that do not count: used and dead are what Used
// returned for the same cutoff. Last stays.
func (h *History) Prune(a *Arena, cutoff, used int64, dead int) {
	switch {
	case h.End <= cutoff:
		h.clear(a)
	case dead > 0:
		h.log.drop(a, dead)
		h.Total = used
		h.Front = h.abs(h.log.first(a))
	}
}

// clear forgets all entries.
func (h *History) clear(a *Arena) {
	h.log.free(a)
	h.End, h.Front, h.Total = long, long, 0
}

// Add records n units, n > 0, that end at end, and an attempt at instant now. An
// end before that of the newest entry, which only a changed Cells or Window
// brings about, becomes that one's: ends never run back (R9). The arena must have
// the Chunks it takes in reserve.
func (h *History) Add(a *Arena, end, now, n int64) {
	switch {
	case h.Total == 0:
		h.End, h.Front = end, end
	case end > h.End:
		if h.log.empty() {
			h.log.add(a, h.End, h.Total)
		}
		h.log.add(a, end, n)
		h.End = end
	case !h.log.empty():
		h.log.setNewest(a, h.log.newest(a)+n)
	}
	h.Total += n
	h.Last = now
}

// Cap is what CountDenied keeps (R6): the newest entry's units up to most, and
// the newest entries whose units reach most. Whatever is older cannot change a
// decision or a wait.
func (h *History) Cap(a *Arena, most int64) {
	if most == 0 {
		h.clear(a)
		return
	}
	if h.log.empty() {
		h.Total = min(h.Total, most)
		return
	}
	if n := h.log.newest(a); n > most {
		h.log.setNewest(a, most)
		h.Total -= n - most
	}
	for h.Front < h.End {
		c := h.log.cursor(a)
		e, _ := c.next(h)
		if h.Total-e.units < most {
			return
		}
		h.Total -= e.units
		h.log.drop(a, e.words)
		h.Front = h.abs(h.log.first(a))
	}
}

// Refund takes up to n units back from the entry that ends at end, if it counts
// at cutoff, and returns how many. Last does not move (R10).
func (h *History) Refund(a *Arena, end, cutoff, n int64) (took int64) {
	if end <= cutoff || end > h.End || h.Total == 0 {
		return 0
	}
	if h.log.empty() {
		if end == h.End {
			took = min(n, h.Total)
			h.Total -= took
		}
	} else {
		took = h.refundIn(a, end, n)
		h.Total -= took
	}
	if h.Total == 0 {
		h.clear(a)
	}
	return took
}

// refundIn is Refund from an entry of the log, which goes when it is left
// without units.
func (h *History) refundIn(a *Arena, end, n int64) int64 {
	for c, words := h.log.cursor(a), 0; ; {
		from := c
		e, ok := c.next(h)
		if !ok || e.end > end {
			return 0
		}
		if e.end < end {
			words += e.words
			continue
		}
		if n >= e.units {
			h.cut(a, from, c, words)
			return e.units
		}
		w := from.word()
		if e.words == 2 {
			*from.word() = uint64(e.units - n)
		} else {
			*w -= uint64(n)
		}
		return n
	}
}

// cut removes the words from one cursor to another; before is the number of
// words in front of them. The last words move up.
func (h *History) cut(a *Arena, from, to cursor, before int) {
	end, wide := int64(long), false
	for rest := h.log.cursor(a); rest.pos != from.pos; {
		e, _ := rest.next(h)
		end, wide = e.end, e.words == 2
	}
	words := before
	for {
		start := to
		e, ok := to.next(h)
		if !ok {
			break
		}
		for range e.words {
			*from.word() = *start.word()
		}
		words += e.words
		end, wide = e.end, e.words == 2
	}
	h.log.keep(a, words, wide)
	if words > 0 {
		h.Front, h.End = h.abs(h.log.first(a)), end
	}
}

// Leave returns the end of the entry with which at least need of the units that
// count at cutoff have left, 0 < need <= used.
func (h *History) Leave(a *Arena, cutoff, need int64) int64 {
	if need == 1 && h.Front > cutoff {
		return h.Front // no entry is without units
	}
	if h.log.empty() {
		return h.End
	}
	for c := h.log.cursor(a); ; {
		e, ok := c.next(h)
		if !ok {
			return h.End
		}
		if e.end <= cutoff {
			continue
		}
		if need -= e.units; need <= 0 {
			return e.end
		}
	}
}

// Free gives the history's memory back and leaves it Empty.
func (h *History) Free(a *Arena) {
	h.log.free(a)
	*h = Empty
}
