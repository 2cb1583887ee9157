package window

import "sort"

// Edits that few calls make: refunds, the bound of CountDenied, and a corrected clock. They
// need no room in the arena, but for Replace.

// clear drops all entries. Last stays.
func (h *History) clear(a *Arena) {
	if h.form() == narrow {
		h.n = 0
		return
	}
	*h.log() = log{long, long, 0}
	if h.run != 0 {
		a.Words(h.run)[0] = 0
	}
}

// take takes n units from the entries i … j-1. The last of them keeps rest units, and the
// others are removed.
func (h *History) take(a *Arena, r *entries, i, j int, n, rest int64) {
	switch {
	case n == h.Total():
		h.clear(a)
		return
	case rest > 0:
		j--
		r.setUnits(j, rest)
	}
	if r.form != narrow {
		h.log().total -= n
	}
	h.remove(r, i, j)
}

// Has reports whether an entry ends at end and counts at cutoff.
func (h *History) Has(a *Arena, end, cutoff int64) bool {
	r := h.entries(a)
	i := r.search(end)
	if i == r.n || end <= cutoff {
		return false
	}
	e, _ := r.at(i)
	return e == end
}

// Refund takes up to n units back from the entry that ends at end, if it counts at cutoff,
// and returns their number. Last does not move (R10).
func (h *History) Refund(a *Arena, end, cutoff, n int64) (took int64) {
	if end <= cutoff {
		return 0
	}
	r := h.entries(a)
	first := r.search(end)
	last, units, each := first, int64(0), int64(0)
	for ; last < r.n && units < n; last++ { // a narrow history has several entries of one end
		var e int64
		if e, each = r.at(last); e != end {
			break
		}
		units += each
	}
	if took = min(n, units); took > 0 {
		h.take(a, &r, first, last, took, units-took)
	}
	return took
}

// search returns the first entry that does not end before end.
func (r *entries) search(end int64) int {
	return sort.Search(r.n, func(i int) bool {
		e, _ := r.at(i)
		return e >= end
	})
}

// RefundOldest takes up to n units back from the oldest entries that count at cutoff, from as
// many entries as needed. It returns the number of units. Last does not move (R10).
func (h *History) RefundOldest(a *Arena, cutoff, n int64) (took int64) {
	used, first := h.Used(a, cutoff)
	if took = min(n, used); took == 0 {
		return 0
	}
	r := h.entries(a)
	last, units := first, int64(0)
	for ; units < took; last++ {
		units += r.unitsAt(last)
	}
	h.take(a, &r, first, last, took, units-took)
	return took
}

// Cap drops the units that CountDenied does not keep (R6). It cuts the newest entry to most
// units, and keeps the newest entries that together reach most. Older ones cannot change a
// decision or a wait. The oldest entry that is kept stays whole, so the total is at most
// 2*MaxUnits - 1. The history is not narrow, because there each unit is an entry.
func (h *History) Cap(a *Arena, most int64) {
	l, r := h.log(), h.entries(a)
	switch {
	case most == 0:
		h.clear(a)
		return
	case r.words == nil:
		l.total = min(l.total, most)
		return
	}
	if over := r.unitsAt(r.n-1) - most; over > 0 {
		r.setUnits(r.n-1, most)
		l.total -= over
	}
	n := 0
	for left := l.total; n < r.n-1; n++ {
		if left -= r.unitsAt(n); left < most {
			break
		}
	}
	if n > 0 {
		h.drop(&r, n)
	}
}

// Step is the least time by which a corrected clock is behind a history: 1 s in microseconds.
// A smaller difference means that readings of the clock arrived in another order (R2).
const Step int64 = 1_000_000

// Behind reports whether a clock at raw is so far behind the history that it must have
// been corrected (R2).
func (h *History) Behind(raw int64) bool { return h.Last-raw >= Step }

// Redate merges the entries of the future into one entry of now, of at most MaxUnits (R2).
// end is the end of an entry of now. The arena has no other history.
func (h *History) Redate(a *Arena, end, now int64) {
	if h.Rate() != 0 { // as much is missing now as was at the newest attempt
		l := h.log()
		micros, rest := h.missing(h.Last)
		*l = log{now + micros, min(l.front, now), rest}
		h.Last = min(h.Last, now)
		return
	}
	var all []Entry
	merged := int64(0)
	h.Each(a, func(e, units int64) {
		if e >= end {
			merged += units
			return
		}
		all = append(all, Entry{e, units})
	})
	if merged > 0 {
		all = append(all, Entry{end, min(merged, MaxUnits)})
	}
	h.Replace(a, all, min(h.Last, now))
}

// Entry is one entry of a history: its units count while End > now - Window.
type Entry struct{ End, Units int64 }

// Replace gives the history other entries, oldest first, and another newest attempt. If the
// arena has no room it reports false, and the history is empty.
func (h *History) Replace(a *Arena, all []Entry, last int64) bool {
	h.Free(a)
	units, most := int64(0), int64(0)
	for _, e := range all {
		units, most = units+e.Units, max(most, e.Units)
	}
	f, room, narrows := packed, len(all), false
	switch n := len(all); {
	case most > packedUnits, n > 0 && all[n-1].End-all[0].End > endMask:
		f = wide
	case n > 0 && all[n-1].End <= last && last-all[0].End < NarrowSpan && units < 2*int64(n):
		f, room, narrows = narrow, int(units), true
	}
	for _, e := range all {
		times, add := int64(1), Add{End: e.End, Now: e.End, Units: e.Units, Narrow: narrows}
		if narrows {
			times, add.Units = e.Units, 1
		}
		for range times {
			if !h.Ready(a, &add) && !h.rebuild(a, f, room) {
				h.Free(a)
				return false
			}
			h.Record(a, &add)
		}
	}
	h.Last = last
	return true
}

// Copy returns a copy of the history, with its entries copied from arena a to another one.
// It reports false if that arena has no room.
func (h *History) Copy(a, to *Arena) (copied History, ok bool) {
	copied = *h
	if h.form() == bucket || h.run == 0 {
		return copied, true
	}
	if copied.run, ok = to.Alloc(h.run.words()); ok {
		copy(to.Words(copied.run), a.Words(h.run))
	}
	return copied, ok
}

// Clone returns a copy of the history with entries in an arena of its own.
func (h *History) Clone(a *Arena) (*History, *Arena) {
	own := &Arena{Budget: unlimited{}}
	copied, _ := h.Copy(a, own)
	return &copied, own
}
