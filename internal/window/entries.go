package window

// entries gives access to the entries of a history, in its arena or in the history itself.
// The commonest attempts do without it.
type entries struct {
	form  form
	n     int
	base  int64    // the newest end, or Last; no end is older by more than a window and a cell
	words []uint32 // the run, or nil
	head  int
	h     *History
}

// entries returns the entries of h. A bucket has none.
func (h *History) entries(a *Arena) entries {
	r := entries{form: h.form(), head: h.head(), h: h}
	if r.form == bucket {
		return r
	}
	if h.run != 0 {
		r.words = a.Words(h.run)
	}
	if r.form == narrow {
		r.n, r.base = int(h.n), h.Last
		return r
	}
	l := h.log()
	r.base = l.end
	switch {
	case h.run != 0:
		r.n = int(r.words[0])
	case l.total > 0:
		r.n = 1
	}
	return r
}

// entryWords is the number of words of an entry.
var entryWords = [...]int{narrow: 1, packed: 2, wide: 4}

// runWords is the number of words of a run for so many entries: the oldest narrow one is in
// the history, and a log stores the number of its entries.
func runWords(f form, n int) int {
	if f == narrow {
		return max(n-1, inlineStamps)
	}
	return 1 + n*entryWords[f]
}

// size is the number of entries for which a log's run has room.
func (r *entries) size() int { return (len(r.words) - 1) / entryWords[r.form] }

// stamp is the stamp of a narrow entry.
func (r *entries) stamp(i int) *uint32 {
	if r.words == nil || i == 0 {
		return &r.h.stamp[i]
	}
	return &r.words[wrap(r.head+i-1, len(r.words))]
}

// place is the first word of entry i of a log.
func (r *entries) place(i int) []uint32 {
	w := entryWords[r.form]
	from := 1 + wrap(r.head+i, r.size())*w
	return r.words[from : from+w]
}

// at returns an entry: its end and its units.
func (r *entries) at(i int) (end, units int64) {
	switch {
	case r.form == narrow:
		return r.base - int64(uint32(r.base)-*r.stamp(i)), 1
	case r.words == nil:
		l := r.h.log()
		return l.end, l.total
	}
	w := r.place(i)
	low := uint64(w[0]) | uint64(w[1])<<32
	if r.form == packed {
		return r.base - int64((uint64(r.base)-low)&endMask), int64(low >> endBits)
	}
	return int64(low), int64(uint64(w[2]) | uint64(w[3])<<32)
}

// unitsAt returns the units of an entry.
func (r *entries) unitsAt(i int) int64 {
	_, units := r.at(i)
	return units
}

// mostUnits is the most units of an entry.
func (r *entries) mostUnits() (most int64) {
	if r.form == narrow {
		return int64(r.n) // all may be of one instant
	}
	for i := range r.n {
		most = max(most, r.unitsAt(i))
	}
	return most
}

// put writes entry i of a log with a run.
func (r *entries) put(i int, end, units int64) {
	w := r.place(i)
	low := uint64(end)
	if r.form == packed {
		low = low&endMask | uint64(units)<<endBits
	} else {
		w[2], w[3] = uint32(units), uint32(uint64(units)>>32)
	}
	w[0], w[1] = uint32(low), uint32(low>>32)
}

// setUnits changes the units of an entry of a log. Without a run the units of the only entry
// are the total, which the caller changes.
func (r *entries) setUnits(i int, units int64) {
	if r.words != nil {
		end, _ := r.at(i)
		r.put(i, end, units)
	}
}

// move writes entry from over entry to.
func (r *entries) move(to, from int) {
	if r.form == narrow {
		*r.stamp(to) = *r.stamp(from)
		return
	}
	copy(r.place(to), r.place(from))
}

// drop removes the n oldest entries of a log, fewer than all.
func (h *History) drop(r *entries, n int) {
	l := h.log()
	for i := range n {
		l.total -= r.unitsAt(i)
	}
	h.remove(r, 0, n)
	l.front, _ = r.at(0)
}

// remove removes the entries i … j-1, but not all entries. It does not change the total of a
// log.
func (h *History) remove(r *entries, i, j int) {
	gap := j - i
	switch {
	case gap == 0:
		return
	case r.form == narrow && (r.words == nil || i > 0), i > 0 && r.n-j <= i:
		for k := j; k < r.n; k++ {
			r.move(k-gap, k)
		}
	case r.form == narrow:
		h.stamp[0] = *r.stamp(gap)
		h.set(narrow, wrap(r.head+gap, len(r.words)))
	default:
		for k := i - 1; k >= 0; k-- {
			r.move(k+gap, k)
		}
		h.set(r.form, wrap(r.head+gap, r.size()))
	}
	r.head = h.head()
	if r.n -= gap; r.form == narrow {
		h.n = uint32(r.n)
		if r.words != nil {
			h.stamp[1] = *r.stamp(r.n - 1)
		}
		return
	}
	r.words[0] = uint32(r.n)
	if r.n > 0 {
		l := h.log()
		l.end, _ = r.at(r.n - 1)
		l.front, _ = r.at(0)
		r.base = l.end
	}
}
