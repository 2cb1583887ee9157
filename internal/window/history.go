package window

import "unsafe"

// History holds the recorded units of one limit and one key: the instant of the newest
// recorded attempt, and entries of (end, units) in the order of their ends. Every entry has
// units.
//
// A history has one of four forms. All but narrow store it as a log. The form is chosen when
// nothing counts, and changes to one with more room when an entry does not fit.
//
// Start from Empty, not from the zero History. Most decisions read only the 40 bytes of the
// history. The others also read the run of its entries in an arena.
type History struct {
	Last int64 // exact instant of the newest recorded attempt; the minimum interval begins there (R5)

	run Run    // the entries in the arena; for a bucket the number of its rate
	pos uint32 // the form in the high bits, and below it the place of the oldest entry in the ring
	stamps
}

// form is the way in which a history is stored.
type form uint32

const (
	// narrow is for windows below 2^32 µs and entries of one unit. An entry is the low 32 bits
	// of its end. These suffice, because every entry was within a window of Last when Last was
	// recorded. Each unit of one instant is an entry of its own.
	narrow form = iota
	packed      // an entry takes 8 bytes: the low 46 bits of its end, and 18 bits of units
	wide        // an entry takes 16 bytes
	bucket      // no entries (bucket.go)
)

const (
	formShift = 30
	posMask   = 1<<formShift - 1

	// NarrowSpan is longer than a window of narrow entries.
	NarrowSpan = 1 << 32

	// Windows and cells have at most 400 days each (R9), so ends are within 2^46 µs, 814 days.
	endBits     = 46
	endMask     = 1<<endBits - 1
	packedUnits = 1<<(64-endBits) - 1

	inlineStamps = 5
)

// stamps is the state of a narrow history.
type stamps struct {
	n uint32 // entries

	// Without a run these are all entries. With a run the first is the oldest entry and the
	// second the newest, so that a denial reads nothing else. The run is then a ring of all
	// entries but the oldest.
	stamp [inlineStamps]uint32
}

// log is the state of the other forms. A single entry is (end, total). Several are all in
// the run, behind a word with their number.
type log struct {
	end   int64 // end of the newest entry, or long without entries
	front int64 // end of the oldest entry, or long without entries
	total int64 // units of all entries
}

const long = -1 << 60 // before every instant

// Empty is a history without entries and attempts.
var Empty = History{Last: long}

func (h *History) form() form { return form(h.pos >> formShift) }
func (h *History) head() int  { return int(h.pos & posMask) }

// Rate returns the number of the rate of a bucket, or 0 for a history with entries.
func (h *History) Rate() uint32 {
	if h.form() == bucket {
		return uint32(h.run)
	}
	return 0
}

func (h *History) set(f form, head int) { h.pos = uint32(f)<<formShift | uint32(head) }

// log returns the state of a history that is not narrow.
func (h *History) log() *log { return (*log)(unsafe.Pointer(&h.stamps)) }

// Add is an entry to be recorded: the Units, above 0, of an attempt at Now, with their End.
// Drop is the number of entries that no longer count, as Used returns it.
type Add struct {
	End, Now, Units int64
	Drop            int
	Narrow          bool // the limit's entries fit the narrow form, apart from the units
}

// Used returns the units that count, those of entries with end > cutoff = now - Window
// (R3), and the number of older entries. now is not before Last.
func (h *History) Used(a *Arena, cutoff int64) (used int64, drop int) {
	if h.form() == narrow {
		left := h.Last - cutoff
		switch {
		case left <= 0:
			return 0, int(h.n)
		case h.n == 0 || int64(uint32(h.Last)-h.stamp[0]) < left:
			return int64(h.n), 0
		}
		drop = h.leftNarrow(h.ring(a), left)
		return int64(h.n) - int64(drop), drop
	}
	l := h.log()
	if l.front > cutoff || l.total == 0 {
		return l.total, 0
	}
	used, e := l.total, h.entries(a)
	if l.end <= cutoff {
		return 0, e.n
	}
	for ; ; drop++ { // the newest entry counts, so this ends before the ring does
		end, units := e.at(drop)
		if end > cutoff {
			return used, drop
		}
		used -= units
	}
}

// leftNarrow returns the number of narrow entries that have left: they are older than Last
// by at least left. The oldest entry has left.
func (h *History) leftNarrow(ring []uint32, left int64) int {
	last := uint32(h.Last)
	if ring == nil {
		i := 1
		for i < int(h.n) && int64(last-h.stamp[i]) >= left {
			i++
		}
		return i
	}
	n := int(h.n) - 1
	// Usually few have left. After eight tries a binary search finds the place.
	lo, place := 0, h.head()
	for lo < min(n, 8) {
		if int64(last-ring[place]) < left {
			return lo + 1
		}
		if place++; place == len(ring) {
			place = 0
		}
		lo++
	}
	for hi := n; lo < hi; {
		mid := (lo + hi) / 2
		if int64(last-ring[wrap(h.head()+mid, len(ring))]) < left {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo + 1
}

// wrap returns a place in a ring of that size, for places below twice the size.
func wrap(place, size int) int {
	if place >= size {
		return place - size
	}
	return place
}

// Ready reports whether Record can add an entry without Grow.
func (h *History) Ready(a *Arena, e *Add) bool {
	if h.form() == narrow {
		kept := int(h.n) - e.Drop
		switch {
		case kept == 0:
			return true
		case e.Units != 1 || !e.Narrow:
			return false
		}
		return h.fits(kept)
	}
	l := h.log()
	if h.run == 0 {
		return l.total == 0 || e.End <= l.end || e.Drop > 0
	}
	r := h.entries(a)
	if kept := r.n - e.Drop; kept == 0 {
		return true
	} else if e.End > l.end {
		return kept < r.size() && (r.form == wide || e.Units <= packedUnits)
	}
	return r.form == wide || r.unitsAt(r.n-1)+e.Units <= packedUnits
}

// Grow makes a history Ready, or reports false if the arena has no room. It keeps all units,
// but narrow entries of one instant can become one entry. e.Drop is changed accordingly.
func (h *History) Grow(a *Arena, e *Add) bool {
	old := h.entries(a)
	f := old.form
	if f == narrow && (e.Units != 1 || !e.Narrow) {
		f = packed
	}
	if f == packed && (e.Units > packedUnits || old.mostUnits()+e.Units > packedUnits) {
		f = wide
	}
	cutoff := int64(long)
	if e.Drop > 0 {
		cutoff, _ = old.at(e.Drop - 1)
	}
	if !h.rebuild(a, f, old.n+1) {
		return false
	}
	_, e.Drop = h.Used(a, cutoff)
	return true
}

// rebuild moves all entries to a run in the form f, with room for so many entries.
func (h *History) rebuild(a *Arena, f form, room int) bool {
	old := h.entries(a)
	run, ok := a.Alloc(runWords(f, room))
	if !ok {
		return false
	}
	to := entries{form: f, base: old.base, words: a.Words(run)}
	switch {
	case f == narrow && old.n == 0:
	case f == narrow:
		if old.words == nil {
			copy(to.words, h.stamp[1:old.n])
		} else {
			n := copy(to.words, old.words[old.head:])
			copy(to.words[n:], old.words[:old.head])
		}
		h.stamp[1] = *old.stamp(old.n - 1)
	default:
		state := log{long, long, 0}
		for i := range old.n {
			end, units := old.at(i)
			if i == 0 {
				state.front = end
			}
			if state.total += units; end == state.end { // narrow entries of one instant
				to.setUnits(to.n-1, to.unitsAt(to.n-1)+units)
				continue
			}
			to.put(to.n, end, units)
			to.n++
			state.end = end
		}
		to.words[0] = uint32(to.n)
		*h.log() = state
	}
	if old.form != bucket {
		a.Free(h.run)
	}
	h.run = run
	h.set(f, 0)
	return true
}

// Record drops the e.Drop oldest entries and adds an entry. Ends never run back (R9): if the
// end is not behind the newest entry, as after a change of Cells or Window, the units join
// that entry. The history is Ready.
func (h *History) Record(a *Arena, e *Add) {
	if h.form() == narrow {
		if int(h.n) == e.Drop {
			h.restart(a, e)
			return
		}
		h.recordNarrow(h.ring(a), e.Drop, e.Now)
		return
	}
	l, r := h.log(), entries{}
	if h.run != 0 {
		r = h.entries(a)
	}
	switch {
	case l.total == 0 || e.Drop > 0 && e.Drop >= r.n:
		h.restart(a, e)
		return
	case e.Drop > 0:
		h.drop(&r, e.Drop)
	}
	switch {
	case e.End > l.end:
		r.put(r.n, e.End, e.Units)
		r.n++
		r.words[0] = uint32(r.n)
		l.end = e.End
	case h.run != 0:
		r.setUnits(r.n-1, r.unitsAt(r.n-1)+e.Units)
	}
	l.total += e.Units
	h.Last = e.Now
}

// recordNarrow records one unit in a narrow history. Some of its entries still count.
func (h *History) recordNarrow(ring []uint32, drop int, now int64) {
	kept := int(h.n) - drop
	if ring == nil {
		if drop > 0 {
			copy(h.stamp[:], h.stamp[drop:h.n])
		}
		h.stamp[kept] = uint32(now)
	} else {
		head := h.head()
		if drop > 0 {
			head = wrap(head+drop-1, len(ring))
			h.stamp[0] = ring[head]
			head = wrap(head+1, len(ring))
			h.set(narrow, head)
		}
		ring[wrap(head+kept-1, len(ring))] = uint32(now)
		h.stamp[1] = uint32(now)
	}
	h.n = uint32(kept + 1)
	h.Last = now
}

// ring returns the entries of a narrow history but for the oldest one, or nil if all are in
// the history.
func (h *History) ring(a *Arena) []uint32 {
	if h.run == 0 {
		return nil
	}
	return a.Words(h.run)
}

// restart makes e the only entry, in the form that e needs. The history keeps its run.
func (h *History) restart(a *Arena, e *Add) {
	if e.Narrow && e.Units == 1 {
		h.beginNarrow(e.Now)
		return
	}
	h.Last = e.Now
	f := packed
	if e.Units > packedUnits {
		f = wide
	}
	h.set(f, 0)
	*h.log() = log{e.End, e.End, e.Units}
	if h.run != 0 {
		r := entries{form: f, base: e.End, words: a.Words(h.run)}
		if r.size() == 0 { // a narrow history had it
			panic("window: a run without room for an entry")
		}
		r.put(0, e.End, e.Units)
		r.words[0] = 1
	}
}

// beginNarrow makes one unit at now the only entry.
func (h *History) beginNarrow(now int64) {
	h.set(narrow, 0)
	h.n = 1
	h.stamp[0], h.stamp[1] = uint32(now), uint32(now)
	h.Last = now
}

// End returns the end of the newest entry, or long without entries.
func (h *History) End() int64 {
	switch {
	case h.form() != narrow:
		return h.log().end
	case h.n == 0:
		return long
	}
	newest := h.stamp[min(h.n-1, inlineStamps-1)]
	if h.run != 0 && h.n > 1 {
		newest = h.stamp[1]
	}
	return h.Last - int64(uint32(h.Last)-newest)
}

// Total is the units of all entries, whether they count or not.
func (h *History) Total() int64 {
	if h.form() == narrow {
		return int64(h.n)
	}
	return h.log().total
}

// Leave returns the end of the last entry that must leave until need units have left. Entries
// leave oldest first, and the drop oldest ones have left already. 0 < need <= used.
func (h *History) Leave(a *Arena, drop int, need int64) int64 {
	if h.form() != narrow {
		if l := h.log(); drop == 0 && (need == 1 || h.run == 0) {
			return l.front // no entry is without units
		}
		r := h.entries(a)
		for i := drop; ; i++ {
			end, units := r.at(i)
			if need -= units; need <= 0 {
				return end
			}
		}
	}
	stamp := h.stamp[0]
	if i := int64(drop) + need - 1; i > 0 {
		r := h.entries(a)
		stamp = *r.stamp(int(i))
	}
	return h.Last - int64(uint32(h.Last)-stamp)
}

// Each calls visit with all entries, the oldest first. A bucket has none.
func (h *History) Each(a *Arena, visit func(end, units int64)) {
	r := h.entries(a)
	for i := 0; i < r.n; {
		end, units := r.at(i)
		for i++; r.form == narrow && i < r.n && *r.stamp(i) == *r.stamp(i - 1); i++ {
			units++
		}
		visit(end, units)
	}
}

// Free frees the run and leaves the history Empty.
func (h *History) Free(a *Arena) {
	if h.form() != bucket {
		a.Free(h.run)
	}
	*h = Empty
}

// TryRecord is Record if the history is Ready and the entry becomes the newest one. It reports
// whether it is.
func (h *History) TryRecord(a *Arena, e *Add) bool {
	if h.form() != narrow || e.Units != 1 || !e.Narrow {
		if e.End < h.End() || !h.Ready(a, e) {
			return false
		}
		h.Record(a, e)
		return true
	}
	kept := int(h.n) - e.Drop // Ready and Record of the commonest form in one step
	switch {
	case kept == 0:
		h.beginNarrow(e.Now)
	case h.fits(kept):
		h.recordNarrow(h.ring(a), e.Drop, e.Now)
	default:
		return false
	}
	return true
}

// fits reports whether another narrow entry fits behind kept ones.
func (h *History) fits(kept int) bool {
	return kept < inlineStamps || h.run != 0 && kept <= h.run.words()
}

// Until returns an instant: one window after it no entry counts. For a bucket it is the instant
// at which the bucket is full. It needs no arena.
func (h *History) Until() int64 {
	if h.form() == narrow {
		return h.Last
	}
	return h.log().end
}
