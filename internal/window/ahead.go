package window

import (
	"slices"
	"sort"
)

// Ahead is the appointments of one history (R18): units the use of which begins after the newest
// decision. They stand beside the history, which few keys need, so that no entry of a history is
// ahead of its Last. Once their instants have passed they are recorded in the history, in their
// order (RecordAll).
//
// Those that have passed stay in the list until an operation writes the history. Methods take the
// number of such entries that the history has already, or that no longer count, as from.
type Ahead struct {
	Entries []Entry // End is the exact instant at which the use begins; the instants rise
	Units   int64   // of all entries
	Until   int64   // no unit counts one window after this instant; for a bucket, from it on

	// The bucket after all appointments have begun, if hasFinal. Without it each caller in a long
	// queue would walk through the queue.
	hasFinal bool
	final    log
}

// Newest returns the instant of the newest appointment. There is one.
func (x *Ahead) Newest() int64 { return x.Entries[len(x.Entries)-1].End }

// Begun returns the number of entries the instants of which have passed at now.
func (x *Ahead) Begun(now int64) int {
	return sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].End > now })
}

// Find returns the place of the appointment at an instant, and reports whether there is one.
func (x *Ahead) Find(start int64) (i int, found bool) {
	i = x.Begun(start - 1)
	return i, i < len(x.Entries) && x.Entries[i].End == start
}

// Book adds n units at an instant. Those of one instant merge (R7). The array has room for one more
// entry. At the end of the list, where a queue grows, this takes constant time.
func (x *Ahead) Book(start, n int64) {
	x.Units += n
	i, found := x.Find(start)
	if found {
		x.Entries[i].Units += n
		return
	}
	x.Entries = slices.Insert(x.Entries, i, Entry{start, n})
}

// Cancel takes n units of the appointment at place i back, and returns their number: at most those
// that it has.
func (x *Ahead) Cancel(i int, n int64) (took int64) {
	e := &x.Entries[i]
	took = min(n, e.Units)
	x.Units -= took
	if e.Units -= took; e.Units == 0 {
		x.Entries = slices.Delete(x.Entries, i, i+1)
	}
	x.hasFinal = false
	return took
}

// Drop removes the n oldest entries, which have begun.
func (x *Ahead) Drop(n int) {
	x.Units -= x.Sum(0, n)
	x.Entries = x.Entries[n:]
}

// Sum returns the units of the entries i … j-1.
func (x *Ahead) Sum(i, j int) (units int64) {
	for ; i < j; i++ {
		units += x.Entries[i].Units
	}
	return units
}

// Shifted returns a copy with instants that are later by so much, or earlier (R2).
func (x *Ahead) Shifted(by int64) *Ahead {
	c := &Ahead{Entries: slices.Clone(x.Entries), Units: x.Units, Until: x.Until + by}
	for i := range c.Entries {
		c.Entries[i].End += by
	}
	return c
}

// EndBehind returns the end of the entry to which units recorded at t belong, in a history with a
// newest end: that of the open window if windows begin with their first unit. Ends never run back
// (R3, R9). The rule is that of the instant t.
func (r *Rule) EndBehind(newest, t int64) int64 {
	if r.FromFirst && newest > t-r.Window {
		return newest
	}
	return max(r.End(t), newest)
}

// Stale returns how many of the first begun entries no longer count at now.
func (x *Ahead) Stale(h *History, r *Rule, begun int, now int64) int {
	cutoff, newest := r.Cutoff(now), h.End()
	if !r.FromFirst { // of two entries the later one leaves later
		return sort.Search(begun, func(i int) bool { return r.EndBehind(newest, x.Entries[i].End) > cutoff })
	}
	for i := range begun {
		if newest = r.EndBehind(newest, x.Entries[i].End); newest > cutoff {
			return i
		}
	}
	return begun
}

// Leave returns the place of the last entry that must leave until need units have left, of those
// from a place on, which have that number of units. 0 < need <= units.
//
// It walks from the nearer end: over at most need entries, and over at most as many as there is
// room for at once. Entries of one unit need no walk.
func (x *Ahead) Leave(from int, units, need int64) int {
	last := len(x.Entries) - 1
	switch {
	case int(units) == len(x.Entries)-from:
		return from + int(need) - 1
	case need <= units/2:
		for ; need > x.Entries[from].Units; from++ {
			need -= x.Entries[from].Units
		}
		return from
	}
	for stay := units - need; stay >= x.Entries[last].Units; last-- {
		stay -= x.Entries[last].Units
	}
	return last
}

// Opened returns the beginning of the window to which entry i belongs, if windows begin with their
// first unit. It walks from the oldest entry.
func (x *Ahead) Opened(h *History, r *Rule, i int) int64 {
	newest := h.End()
	for _, e := range x.Entries[:i+1] {
		newest = r.EndBehind(newest, e.End)
	}
	return newest
}

// Begin takes the units of an appointment that has begun at t from a bucket. At most so many are
// missing afterwards, unless more were missing before (R16).
func (h *History) Begin(f *Refill, t, n, most int64) {
	last := max(h.Last, t)
	h.Take(&Rule{Max: most, Rate: h.Rate(), Refill: f}, t, min(n, most), true)
	h.Last = last
}

// BeginAll takes the units of the entries i … j-1 from a bucket, each at its instant.
func (x *Ahead) BeginAll(h *History, f *Refill, i, j int, most int64) {
	for _, e := range x.Entries[i:j] {
		h.Begin(f, e.End, e.Units, most)
	}
}

// Final returns the bucket after all entries from a place on have begun. If keeps is set, h is the
// stored bucket, or that bucket with the entries before, and the result is kept for the next caller.
func (x *Ahead) Final(h *History, f *Refill, from int, most int64, keeps bool) History {
	b := *h
	if keeps && x.hasFinal {
		*b.log() = x.final
		return b
	}
	x.BeginAll(&b, f, from, len(x.Entries), most)
	if keeps {
		x.hasFinal, x.final = true, *b.log()
	}
	return b
}

// Forget drops what Final has kept: the bucket or the list has changed.
func (x *Ahead) Forget() { x.hasFinal = false }

// Extend adds an appointment that was booked last to what Final has kept.
func (x *Ahead) Extend(h *History, f *Refill, start, n, most int64) {
	if !x.hasFinal {
		return
	}
	if x.hasFinal = x.Newest() == start; x.hasFinal {
		b := *h
		*b.log() = x.final
		b.Begin(f, start, n, most)
		x.final = *b.log()
	}
}

// Queue is a bucket with appointments at an instant: those before From have begun and are taken.
type Queue struct {
	List   *Ahead
	Bucket *History
	Refill *Refill
	From   int
	Most   int64 // units that are missing at most, Refill.MaxExact of the limit
	Keeps  bool  // as for Final
}

// Wait returns the time after now until at most room units are missing or ahead. It looks at the end
// of the queue first, and seldom walks through it: if an attempt fits sooner than the newest
// appointment.
func (q *Queue) Wait(now, room int64) int64 {
	x := q.List
	final := x.Final(q.Bucket, q.Refill, q.From, q.Most, q.Keeps)
	if len(x.Entries) > q.From && final.Missing(q.Refill, x.Newest()) > room {
		return final.until(q.Refill, now, room)
	}
	b, at := *q.Bucket, now
	ahead := x.Sum(q.From, len(x.Entries))
	for i := q.From; ; i++ {
		if free := room - ahead; free >= 0 {
			t := at
			if b.Missing(q.Refill, at) > free {
				t += b.until(q.Refill, at, free)
			}
			if i == len(x.Entries) || t <= x.Entries[i].End {
				return t - now
			}
		}
		e := x.Entries[i]
		b.Begin(q.Refill, e.End, e.Units, q.Most)
		at, ahead = e.End, ahead-e.Units
	}
}

// Reset returns the time until the bucket is full and no appointment is ahead. There is one.
func (q *Queue) Reset(now int64) int64 {
	final := q.List.Final(q.Bucket, q.Refill, q.From, q.Most, q.Keeps)
	return final.until(q.Refill, now, 0)
}

// Next returns the time until the next unit flows in, of a bucket that is full until the first
// appointment.
func (q *Queue) Next(now int64) int64 {
	b, e := *q.Bucket, q.List.Entries[q.From]
	b.Begin(q.Refill, e.End, e.Units, q.Most)
	return b.until(q.Refill, now, b.Missing(q.Refill, e.End)-1)
}

// Full returns the instant at which the bucket is full, rounded down, after all entries have begun.
func (q *Queue) Full() int64 {
	final := q.List.Final(q.Bucket, q.Refill, q.From, q.Most, q.Keeps)
	return final.log().end
}

// GrowFor makes room for RecordAll of some entries, or reports false if the arena has none. fits
// reports that the limit's entries fit the narrow form, apart from the units. It keeps all units.
func (h *History) GrowFor(a *Arena, adds []Add, cutoff int64, fits bool) bool {
	old := h.entries(a)
	_, drop := h.Used(a, cutoff)
	n, f := old.n-drop+len(adds), old.form
	units := int64(0)
	for i := range adds {
		units += adds[i].Units
		fits = fits && adds[i].Units == 1 && adds[i].Narrow
	}
	if f == narrow && !fits && n > 0 {
		f = packed
	}
	if f == packed && (units > packedUnits || old.mostUnits()+units > packedUnits) {
		f = wide
	}
	if f == old.form && (len(adds) == 0 || n <= old.most()) {
		return true
	}
	return h.rebuild(a, f, max(2, old.n+len(adds))) // a run has room for an entry in each form
}

// most is the most entries for which RecordAll has room. A log needs a run for that.
func (r *entries) most() int {
	switch {
	case r.form == narrow && r.words == nil:
		return inlineStamps
	case r.words == nil:
		return 0
	case r.form == narrow:
		return len(r.words) + 1
	}
	return r.size()
}

// RecordAll drops the entries that no longer count at a cutoff, adds some in their order, and moves
// Last. GrowFor has made room for them.
func (h *History) RecordAll(a *Arena, adds []Add, cutoff, last int64) {
	_, drop := h.Used(a, cutoff)
	r := h.entries(a)
	switch {
	case drop == 0:
	case drop == r.n:
		h.clear(a)
	case r.form == narrow:
		h.remove(&r, 0, drop)
	default:
		h.drop(&r, drop)
	}
	if h.form() == narrow {
		for i := range adds {
			if h.n == 0 {
				h.beginNarrow(adds[i].Now)
			} else {
				h.recordNarrow(h.ring(a), 0, adds[i].Now)
			}
		}
	} else {
		h.appendAll(a, adds)
	}
	h.Last = last
}

// appendAll adds entries to a log with a run.
func (h *History) appendAll(a *Arena, adds []Add) {
	if len(adds) == 0 {
		return
	}
	l, r := h.log(), h.entries(a)
	for i := range adds {
		switch e := &adds[i]; {
		case l.total > 0 && e.End <= l.end:
			r.setUnits(r.n-1, r.unitsAt(r.n-1)+e.Units)
		default:
			if r.put(r.n, e.End, e.Units); l.total == 0 {
				l.front = e.End
			}
			r.n++
			l.end = e.End
		}
		l.total += adds[i].Units
	}
	r.words[0] = uint32(r.n)
}

// MayMove reports whether MoveLast needs no room.
func (h *History) MayMove(last int64) bool {
	if h.form() != narrow || h.n == 0 {
		return true
	}
	return last-h.Last+int64(uint32(h.Last)-h.stamp[0]) < NarrowSpan
}

// MoveLast moves Last and drops nothing, or reports false if the arena has no room.
func (h *History) MoveLast(a *Arena, last int64) bool {
	if h.MayMove(last) {
		h.Last = last
		return true
	}
	var all []Entry
	h.Each(a, func(end, units int64) { all = append(all, Entry{end, units}) })
	return h.Replace(a, all, last)
}

// Append adds entries behind all entries, also those that no longer count, and moves Last. The arena
// has no other history.
func (h *History) Append(a *Arena, more []Entry, last int64) {
	var all []Entry
	h.Each(a, func(end, units int64) { all = append(all, Entry{end, units}) })
	for _, e := range more {
		if n := len(all); n > 0 && all[n-1].End >= e.End {
			all[n-1].Units += e.Units
			continue
		}
		all = append(all, e)
	}
	h.Replace(a, all, last)
}
