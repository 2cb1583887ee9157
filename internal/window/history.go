package window

// History is what is remembered for one limit and one key: the instant of the
// newest recorded attempt, and entries of (end, units) in order of their ends.
// The newest entry stands in the History itself, so that a key with one entry
// needs nothing else; the older ones stand in a log. Ends never run back.
//
// Start from Empty, not from the zero History.
type History struct {
	Last  int64 // exact instant of the newest recorded attempt; the gap counts from it (R5)
	End   int64 // end of the newest entry
	Units int64 // units of the newest entry
	Total int64 // units of all entries
	older log
}

const long = -1 << 60 // before every instant

// Empty is a history that remembers nothing.
var Empty = History{Last: long, End: long}

// Chunks is the number of chunks that adding an entry with that end takes from
// the arena: 0 or 1.
func (h *History) Chunks(end int64) int {
	if end <= h.End || h.Units == 0 {
		return 0
	}
	words := 1
	if h.Units >= wideUnits {
		words = 2
	}
	if h.older.full(words) {
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

// Used returns the units that count, which are those of entries with
// end > cutoff = now - Window (R3). dead is the number of older words that no
// longer do.
func (h *History) Used(a *Arena, cutoff int64) (used int64, dead int) {
	if h.End <= cutoff {
		return 0, 0
	}
	if h.older.empty() || h.abs(h.older.first(a)) > cutoff {
		return h.Total, 0
	}
	used = h.Total
	for c := h.older.cursor(a); ; {
		e, ok := c.next(h)
		if !ok || e.end > cutoff {
			return used, dead
		}
		used -= e.units
		dead += e.words
	}
}

// Front is the end of the oldest entry, and its units or, of a wide one, fewer.
// Of an empty history it is long ago.
func (h *History) Front(a *Arena) (end, units int64) {
	if h.older.empty() {
		return h.End, h.Units
	}
	w := h.older.first(a)
	return h.abs(w), int64(w & wideUnits)
}

// entry is one older entry as read from the log.
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

// Prune forgets the entries that do not count: used and dead are what Used
// returned for the same cutoff. Last stays.
func (h *History) Prune(a *Arena, cutoff, used int64, dead int) {
	if h.End <= cutoff {
		h.older.free(a)
		h.End, h.Units, h.Total = long, 0, 0
		return
	}
	if dead > 0 {
		h.older.drop(a, dead)
		h.Total = used
	}
}

// Add records n units that end at end, and an attempt at instant now. An end
// before that of the newest entry, which only a changed Cells or Window brings
// about, becomes that one's: ends never run back (R9). The arena must have the
// Chunks it takes in reserve.
func (h *History) Add(a *Arena, end, now, n int64) {
	switch {
	case end <= h.End:
		h.Units += n
	case h.Units == 0:
		h.End, h.Units = end, n
	default:
		older := h.Units
		word := uint64(h.End) << unitBits
		if older < wideUnits {
			h.older.append(a, word|uint64(older))
		} else {
			h.older.append(a, word|wideUnits)
			h.older.append(a, uint64(older))
		}
		h.End, h.Units = end, n
	}
	h.Total += n
	h.Last = now
}

// Cap is what CountDenied keeps (R6): the newest entry's units up to most, and
// the newest entries whose units reach most. Whatever is older cannot change a
// decision or a wait.
func (h *History) Cap(a *Arena, most int64) {
	if h.Units > most {
		h.Total -= h.Units - most
		h.Units = most
	}
	for !h.older.empty() {
		c := h.older.cursor(a)
		e, _ := c.next(h)
		if h.Total-e.units < most {
			return
		}
		h.Total -= e.units
		h.older.drop(a, e.words)
	}
}

// Refund takes up to n units back from the entry that ends at end, if it counts
// at cutoff, and returns how many. Last does not move (R10).
func (h *History) Refund(a *Arena, end, cutoff, n int64) int64 {
	if end <= cutoff || end > h.End {
		return 0
	}
	if end == h.End {
		took := min(n, h.Units)
		h.Units -= took
		h.Total -= took
		return took
	}
	for c := h.older.cursor(a); ; {
		w := c.word()
		if w == nil {
			return 0
		}
		units := int64(*w & wideUnits)
		wide := units == wideUnits
		at := w
		if wide {
			at = c.word()
			units = int64(*at)
		}
		if h.abs(*w) != end {
			continue
		}
		took := min(n, units)
		*at -= uint64(took)
		h.Total -= took
		return took
	}
}

// Since returns the units of entries with end > cutoff, where cutoff is now
// less the span asked for (R11).
func (h *History) Since(a *Arena, cutoff int64) int64 {
	used, _ := h.Used(a, cutoff)
	return used
}

// Leave returns the end of the entry with which at least need of the units that
// count at cutoff have left, 0 < need <= used.
func (h *History) Leave(a *Arena, cutoff, need int64) int64 {
	if end, units := h.Front(a); end > cutoff && units >= need {
		return end // the common case: one unit of many
	}
	for c := h.older.cursor(a); ; {
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

// Newest returns the end of the newest entry that has units; there must be one
// that counts. A refund may have emptied the newer ones.
func (h *History) Newest(a *Arena) int64 {
	if h.Units > 0 {
		return h.End
	}
	newest := int64(long)
	for c := h.older.cursor(a); ; {
		e, ok := c.next(h)
		if !ok {
			return newest
		}
		if e.units > 0 {
			newest = e.end
		}
	}
}

// Free gives the history's memory back and leaves it Empty.
func (h *History) Free(a *Arena) {
	h.older.free(a)
	*h = Empty
}
