package window

// History holds the recorded units of one limit and one key: the instant of the newest
// recorded attempt, and entries of (end, units) in order of their ends, which never run
// back. No entry is without units.
//
// A single entry is (End, Total) and needs no log. Several entries are in the log, the
// newest included; thanks to Front and End most decisions do not read it.
//
// Start from Empty, not from the zero History.
type History struct {
	Last  int64 // exact instant of the newest recorded attempt; the minimum interval begins there (R5)
	End   int64 // end of the newest entry, -1<<60 without one
	Front int64 // end of the oldest entry, -1<<60 without one
	Total int64 // units of all entries
	log   log   // empty, or all entries
}

const long = -1 << 60 // before every instant

// Empty is a history without entries and attempts.
var Empty = History{Last: long, End: long, Front: long}

// Chunks is the number of chunks that Add may take from the arena for n units that end at
// end: 0 … 2.
func (h *History) Chunks(end, n int64) int {
	need := 0
	switch {
	case h.Total == 0:
		return 0
	case h.log.empty() && end <= h.End:
		return 0
	case h.log.empty():
		return 1
	case end <= h.End:
		need = grownWords
	default:
		need = words(end-h.End, n)
	}
	return h.log.chunks(need)
}

// Mark is the place in a log where the entries that count begin. The zero Mark is before
// all entries.
type Mark struct {
	place place
	end   int64 // of the entry there
}

// Used returns the units that count, those of entries with end > cutoff = now - Window
// (R3), and the place where these entries begin, for Prune.
func (h *History) Used(a *Arena, cutoff int64) (used int64, from Mark) {
	if h.Front > cutoff {
		return h.Total, Mark{}
	}
	return h.usedBehind(a, cutoff)
}

// usedBehind is Used if some entries do not count. Used alone is inlined.
func (h *History) usedBehind(a *Arena, cutoff int64) (used int64, from Mark) {
	if h.End <= cutoff {
		return 0, Mark{}
	}
	if used, from, ok := h.usedNarrow(a, cutoff); ok {
		return used, from
	}
	used = h.Total
	c := h.cursor(a)
	for c.more() { // the newest entry counts, so this ends before the log does
		from.place = c.place()
		e := c.next()
		if e.end > cutoff && e.units > 0 {
			from.end = e.end
			break
		}
		used -= e.units
	}
	return used, from
}

// usedNarrow is Used for the commonest case: the entries that no longer count and the
// first that does are narrow and in one chunk. Otherwise it reports false
// (BenchmarkAllow).
func (h *History) usedNarrow(a *Arena, cutoff int64) (used int64, from Mark, ok bool) {
	words, end := &a.At(h.log.head.ref()).words, h.Front
	used = h.Total
	w := words[h.log.head.pos()]
	for i := h.log.head.pos() + 1; i < perChunk && w&1 == 0; i++ {
		used -= int64(w >> 1 & 1)
		if w = words[i]; w&1 != 0 {
			break
		}
		if end += int64(w >> 2); end > cutoff && w>>1&1 != 0 {
			return used, Mark{at(h.log.head.ref(), i), end}, true
		}
	}
	return 0, Mark{}, false
}

// Prune drops the entries that do not count. used and from are the results of Used for
// the same cutoff. Last stays.
func (h *History) Prune(a *Arena, cutoff, used int64, from Mark) {
	if h.Front <= cutoff {
		h.prune(a, cutoff, used, from)
	}
}

// prune is Prune if some entries do not count. Prune alone is inlined.
func (h *History) prune(a *Arena, cutoff, used int64, from Mark) {
	switch {
	case h.End <= cutoff:
		h.clear(a)
	case from.place != 0:
		h.log.dropTo(a, from.place)
		h.Total, h.Front = used, from.end
	}
}

// clear drops all entries.
func (h *History) clear(a *Arena) {
	a.changed(h)
	h.log.free(a)
	h.End, h.Front, h.Total = long, long, 0
}

// Add records n units, n > 0, that end at end, and an attempt at instant now. If end is
// before the newest entry, as after a change of Cells or Window, the units join that
// entry: ends never run back (R9). The arena must have Chunks in reserve.
func (h *History) Add(a *Arena, end, now, n int64) {
	switch {
	case h.Total == 0:
		h.End, h.Front = end, end
	case end > h.End:
		if h.log.empty() {
			h.log.add(a, 0, h.Total)
		}
		h.log.add(a, end-h.End, n)
		h.End = end
	case !h.log.empty():
		h.log.grow(a, n)
	}
	h.Total += n
	h.Last = now
}

// Cap drops units that CountDenied does not keep (R6): those of the newest entry
// above most, and entries older than the newest ones that reach most units. Older
// ones cannot change a decision or a wait. The oldest entry of the rest stays whole, so
// the total is at most 2*MaxUnits - 1.
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
	c := h.cursor(a)
	e, from := c.next(), Mark{}
	for h.Front < h.End && h.Total-e.units >= most {
		h.Total -= e.units
		for e.units = 0; e.units == 0 && c.more(); {
			from.place = c.place()
			e = c.next()
		}
		h.Front = e.end
	}
	if from.place != 0 {
		h.log.dropTo(a, from.place)
	}
}

// Refund takes up to n units back from the entry that ends at end, if it counts at
// cutoff, and returns their number. Last does not move (R10).
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

// refundIn is Refund from an entry of the log. An entry without units left is removed if
// it is the oldest or the newest. Otherwise it stays as a mark of time until the entries
// before it are dropped, because ends are stored as differences.
func (h *History) refundIn(a *Arena, end, n int64) (took int64) {
	a.changed(h)
	var older tail
	for c := h.cursor(a); c.more(); {
		from := c
		e := c.next()
		switch {
		case e.end > end:
			return 0
		case e.end < end:
			older.see(&c, e)
			continue
		case n < e.units:
			from.set(e.units - n)
			return n
		case end < h.End && end > h.Front:
			from.set(0)
		case end < h.End: // the oldest
			h.dropFirst(a, c)
		case end > h.Front: // the newest
			h.log.cutAt(a, older.place, older.kind)
			h.End = older.end
		}
		return e.units // if it is the only one, Refund frees the log
	}
	return 0
}

// RefundOldest takes up to n units back from the oldest entries that count at cutoff, from as
// many as needed, and returns their number. Last does not move (R10).
func (h *History) RefundOldest(a *Arena, cutoff, n int64) (took int64) {
	switch {
	case h.End <= cutoff || h.Total == 0:
		return 0
	case h.log.empty() || n >= h.Total && h.Front > cutoff:
		took = min(n, h.Total)
	default:
		took = h.refundFront(a, cutoff, n)
	}
	if h.Total -= took; h.Total == 0 {
		h.clear(a)
	}
	return took
}

// refundFront is RefundOldest from entries of the log, in one walk. As in refundIn, entries
// without units stay between others.
func (h *History) refundFront(a *Arena, cutoff, n int64) (took int64) {
	a.changed(h)
	var older tail // the newest entry that does not count
	for c := h.cursor(a); c.more(); {
		from, place := c, c.place()
		e := c.next()
		switch left := n - took; {
		case e.end <= cutoff:
			older.see(&c, e)
		case e.units <= left:
			from.set(0)
			took += e.units
		case older.place == 0: // the oldest that stays
			from.set(e.units - left)
			h.log.dropTo(a, place)
			h.Front = e.end
			return n
		default:
			from.set(e.units - left)
			return n
		}
	}
	h.log.cutAt(a, older.place, older.kind)
	h.End = older.end
	return took
}

// dropFirst removes the oldest entry; the cursor is behind it.
func (h *History) dropFirst(a *Arena, c cursor) {
	for c.more() {
		place := c.place()
		if e := c.next(); e.units > 0 {
			h.log.dropTo(a, place)
			h.Front = e.end
			return
		}
	}
}

// tail is the newest entry with units that a walk has passed: its place behind it in the
// log, and the instant of its end.
type tail struct {
	place place
	kind  kind
	end   int64
}

func (t *tail) see(c *cursor, e entry) {
	if e.units > 0 {
		*t = tail{c.place(), e.kind, e.end}
	}
}

// Leave returns the end of the oldest entry with which at least need of the units that
// count at cutoff have left, 0 < need <= used.
func (h *History) Leave(a *Arena, cutoff, need int64) int64 {
	if need == 1 && h.Front > cutoff {
		return h.Front // no entry is without units
	}
	return h.leave(a, cutoff, need)
}

// leave is Leave by a walk through the log. Leave alone is inlined.
func (h *History) leave(a *Arena, cutoff, need int64) int64 {
	if h.log.empty() {
		return h.End
	}
	for c := h.cursor(a); c.more(); {
		e := c.next()
		if e.end <= cutoff {
			continue
		}
		if need -= e.units; need <= 0 {
			return e.end
		}
	}
	return h.End
}

// Free frees the log and leaves the history Empty.
func (h *History) Free(a *Arena) {
	a.changed(h)
	h.log.free(a)
	*h = Empty
}
