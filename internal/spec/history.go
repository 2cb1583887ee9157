package spec

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/engine"
)

// entry is the units of one instant or, with Cells, of one cell (R7, R9).
type entry struct {
	u     int64 // the instant, or the end of the cell, in microseconds
	units int64 // above 0
}

// history holds the entries of one limit for one value of its dimensions. Its methods do
// not change it; they return another history.
type history struct {
	entries []entry // u rises
	bucket  *bucket // set for a Bucket that was used (R16); then there are no entries
	tried   bool    // any attempt was ever recorded
	last    int64   // the exact instant of the newest decision that was recorded (R2, R5)
	ahead   []entry // appointments: exact instants after last, which rise (R18)
}

// mark is the instant stored with an entry of instant t: t, or with Cells the end of its
// cell. The entry counts while mark > now - Window, which is the floored time against a
// window one cell longer (R9). A calendar window is stored with its beginning, and so
// counts until its end (R3).
func mark(limit engine.Limit, t int64) int64 {
	switch {
	case limit.Period != nil:
		start, _ := limit.Period.WindowAt(t)
		return start
	case limit.Kind == engine.KindFixed:
		return t / limit.Window * limit.Window
	case limit.Cell == 0:
		return t
	}
	return min(t/limit.Cell*limit.Cell+limit.Cell, engine.MaxInstant) // no instant is later
}

// cutoff is the newest mark that no longer counts at now: one window before it or, in a
// window of a Period, before the window's beginning (R3).
func cutoff(limit engine.Limit, now int64) int64 {
	if limit.Period != nil {
		start, _ := limit.Period.WindowAt(now)
		return start - 1
	}
	return now - limit.Window
}

// leaves is the instant from which an entry that counts at now no longer counts.
func leaves(limit engine.Limit, mark, now int64) int64 {
	if limit.Period != nil {
		_, end := limit.Period.WindowAt(now)
		return end
	}
	return mark + limit.Window
}

// paced is h with the rate of a changed Bucket at now (R12). A history that remembers
// nothing is a full bucket (R16).
func (h history) paced(limit engine.Limit, now int64) history {
	switch {
	case limit.Kind != engine.KindBucket:
	case h.bucket == nil:
		h.bucket = full(limit, now)
	default:
		h.bucket = h.bucket.paced(limit, now)
	}
	return h
}

// open is the mark of units recorded in h at now: the mark of the newest entry while a
// window that began with its first unit lasts (R3).
func (h history) open(limit engine.Limit, now int64) int64 {
	if n := len(h.entries); limit.Kind == engine.KindFixedFromFirst && n > 0 && h.entries[n-1].u > now-limit.Window {
		return h.entries[n-1].u
	}
	return mark(limit, now)
}

// holder is the mark of the entry of h that holds the units granted at instant at: the
// newest, if at is within the window of a Period, or within one that began with its first
// unit (R10). -1 is the mark of none.
func (h history) holder(limit engine.Limit, at, cutoff int64) int64 {
	if len(h.entries) == 0 {
		return -1
	}
	begin, newest := int64(-1), h.entries[len(h.entries)-1].u
	end := int64(-1)
	switch {
	case limit.Period != nil:
		begin, end = limit.Period.WindowAt(cutoff + 1)
	case limit.Kind == engine.KindFixedFromFirst:
		begin, end = newest, newest+limit.Window
	}
	if begin <= at && at < end {
		return newest
	}
	return mark(limit, at)
}

// folded is h as it is at an instant: appointments whose instants have passed are entries of
// these instants, recorded in their order (R18).
func (h history) folded(limit engine.Limit, now int64) history {
	for len(h.ahead) > 0 && h.ahead[0].u <= now {
		started := h.ahead[0]
		h.ahead = h.ahead[1:]
		if h.bucket != nil {
			h.bucket = h.bucket.minus(started.u, started.units, limit.Refill.MaxExact)
		} else {
			h = h.plus(h.open(limit, started.u), started.units)
		}
		h.last = max(h.last, started.u)
	}
	return h
}

// stage is a history as it is from an instant on, until the next appointment begins.
type stage struct {
	from int64
	history
}

// stages are h at now, and as it is when each of its appointments has begun.
func (h history) stages(limit engine.Limit, now int64) []stage {
	all := []stage{{now, h.folded(limit, now)}}
	for len(all[len(all)-1].ahead) > 0 {
		from := all[len(all)-1].ahead[0].u
		all = append(all, stage{from, h.folded(limit, from)})
	}
	return all
}

// newest is the instant of the newest attempt, also of one that is ahead (R5, R18).
func (h history) newest() int64 {
	if n := len(h.ahead); n > 0 {
		return h.ahead[n-1].u
	}
	return h.last
}

// booked is the number of units that are ahead.
func (h history) booked() int64 {
	sum := int64(0)
	for _, e := range h.ahead {
		sum += e.units
	}
	return sum
}

// with is h with an appointment of n units at an instant ahead. Those of one instant merge (R7).
func (h history) with(start, n int64) history {
	h.ahead = slices.Clone(h.ahead)
	i, found := slices.BinarySearchFunc(h.ahead, start, func(e entry, u int64) int { return cmp.Compare(e.u, u) })
	if !found {
		h.ahead = slices.Insert(h.ahead, i, entry{u: start})
	}
	h.ahead[i].units += n
	return h
}

// cancel is h after up to n units of the appointment at an instant were taken back at now, and
// the number that was taken.
func (h history) cancel(start, n, now int64) (history, int64) {
	h.ahead = slices.Clone(h.ahead)
	for i := range h.ahead {
		if h.ahead[i].u != start {
			continue
		}
		taken := min(n, h.ahead[i].units)
		if h.ahead[i].units -= taken; h.ahead[i].units == 0 {
			h.ahead = slices.Delete(h.ahead, i, i+1)
		}
		h.last = now
		return h, taken
	}
	return h, 0
}

// isAhead reports whether an appointment of that instant has not begun.
func (h history) isAhead(start int64) bool {
	return slices.ContainsFunc(h.ahead, func(e entry) bool { return e.u == start })
}

// shown is the entries of h that count at now, its appointments, and the open window.
func (h history) shown(limit engine.Limit, now int64) (all engine.History) {
	for _, e := range h.entries {
		if e.u > cutoff(limit, now) {
			all.Entries = append(all.Entries, engine.Entry{At: e.u, Units: e.units})
		}
	}
	for _, e := range h.ahead {
		all.Ahead = append(all.Ahead, engine.Entry{At: e.u, Units: e.units})
	}
	switch {
	case limit.Period != nil:
		all.Start, all.End = limit.Period.WindowAt(now)
	case limit.Kind == engine.KindFixed:
		all.Start = mark(limit, now)
		all.End = all.Start + limit.Window
	case limit.Kind == engine.KindFixedFromFirst && len(all.Entries) > 0:
		all.Start = all.Entries[len(all.Entries)-1].At
		all.End = all.Start + limit.Window
	}
	return all
}

// since is the sum of units of the entries after instant s.
func (h history) since(s int64) int64 {
	sum := int64(0)
	for _, e := range h.entries {
		if e.u > s {
			sum += e.units
		}
	}
	return sum
}

// corrected is h after the clock was found to be at now, behind last: entries of the
// future merge into one entry of now, which holds at most MaxUnits (R2). Appointments keep their
// distance from the newest decision (R18).
func (h history) corrected(limit engine.Limit, now int64) history {
	c := history{tried: true, last: now}
	for _, e := range h.ahead {
		c.ahead = append(c.ahead, entry{now + e.u - h.last, e.units})
	}
	if h.bucket != nil { // as much is missing now as was then
		c.bucket = h.bucket.at(h.last)
		c.bucket.asOf, c.bucket.since = now, min(c.bucket.since, now)
		return c
	}
	for _, e := range h.entries {
		c = c.plus(min(e.u, mark(limit, now)), e.units)
		merged := &c.entries[len(c.entries)-1]
		merged.units = min(merged.units, engine.MaxUnits)
	}
	return c
}

// pruned is h without the entries that no longer count at now (R3, R4).
func (h history) pruned(limit engine.Limit, now int64) history {
	h.entries = slices.DeleteFunc(slices.Clone(h.entries), func(e entry) bool {
		return e.u <= cutoff(limit, now)
	})
	return h
}

// plus is h with n more units at mark u. Entries of one mark merge (R7), and a
// mark never runs back: where a changed grid would have it so, the newest entry
// takes the units (R9, R12).
func (h history) plus(u, n int64) history {
	h.entries = slices.Clone(h.entries)
	newest := len(h.entries) - 1
	if newest >= 0 && h.entries[newest].u >= u {
		h.entries[newest].units += n
	} else {
		h.entries = append(h.entries, entry{u, n})
	}
	return h
}

// filled is h without the entries that hold no units: they were refunded whole, or capped
// at 0.
func (h history) filled() history {
	h.entries = slices.DeleteFunc(slices.Clone(h.entries), func(e entry) bool { return e.units == 0 })
	return h
}

// trimmed is h with the newest entry capped at most units, and without the entries older than
// those that reach most units. The oldest entry that stays is whole. In CountDenied no other
// entry can change a decision or a wait (R6).
func (h history) trimmed(most int64) history {
	h.entries = slices.Clone(h.entries)
	if newest := len(h.entries) - 1; newest >= 0 {
		h.entries[newest].units = min(h.entries[newest].units, most)
	}
	sum := int64(0)
	for i := len(h.entries) - 1; i >= 0; i-- {
		if sum += h.entries[i].units; sum >= most {
			h.entries = h.entries[i:]
			break
		}
	}
	return h
}
