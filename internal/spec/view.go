package spec

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// view is the state that one decision reads: an instant, and for each limit its history
// as of that instant. Its methods do not change it.
type view struct {
	now    int64
	limits []weir.PlanLimit
	past   []history // one for each limit
}

// second is the time by which a clock is behind if R2 takes it as corrected.
const second = 1_000_000

// see applies R2. If the clock is behind by less than a second, the decision happens at
// the newest such entry. A history further ahead is from before a correction of the
// clock: its future counts as of now.
func see(limits []weir.PlanLimit, past []history, clock int64) view {
	v := view{now: clock, limits: limits, past: past}
	for _, h := range past {
		if h.tried && h.last > clock && h.last-clock < second {
			v.now = max(v.now, h.last)
		}
	}
	for i, h := range past {
		if h.tried && h.last-clock >= second {
			v.past[i] = h.corrected(limits[i], v.now)
		}
	}
	return v
}

// used is the units of limit i that count now (R3).
func (v view) used(i int) int64 { return v.past[i].since(v.now - v.limits[i].Window) }

// roomOf is the number of units that limit i still takes; below 0 after a Record, in
// CountDenied, or after Max was lowered (R5, R10, R12).
func (v view) roomOf(i int) int64 { return v.limits[i].Max - v.used(i) }

// room is the least room over all limits (R5).
func (v view) room() int64 {
	least := v.roomOf(0)
	for i := range v.limits {
		least = min(least, v.roomOf(i))
	}
	return least
}

// openOf reports whether the minimum interval of limit i has passed (R5).
func (v view) openOf(i int) bool {
	return !v.past[i].tried || v.now-v.past[i].last >= v.limits[i].MinInterval
}

// open reports whether all minimum intervals have passed (R5).
func (v view) open() bool {
	for i := range v.limits {
		if !v.openOf(i) {
			return false
		}
	}
	return true
}

// unitsOf is the number of units that an attempt of n takes of limit i: the limit's cost
// or, without one, n. An attempt of 0 takes none (R7).
func (v view) unitsOf(i int, n int64) int64 {
	if cost := v.limits[i].Cost; cost > 0 && n > 0 {
		return cost
	}
	return n
}

// fits reports whether an attempt of n would be granted in full (R5, R6).
func (v view) fits(n int64) bool {
	for i := range v.limits {
		if v.unitsOf(i, n) > v.roomOf(i) {
			return false
		}
	}
	return v.open()
}

// grant is the number of units granted to the request (R6, R10).
func (v view) grant(mode weir.Mode, a weir.Request) int64 {
	switch {
	case a.Op == weir.OpRecord || v.fits(a.N):
		return a.N
	case mode == weir.Partial && v.open() && v.room() > 0:
		return min(a.N, v.room())
	}
	return 0
}

// record is v after the request was granted that number of units: each limit has recorded
// the same attempt, or none has (R7). It fails if a record would take a history above
// MaxUnits; in CountDenied the entry is capped at Max first (R6, R10).
func (v view) record(mode weir.Mode, a weir.Request, granted int64) (view, error) {
	n := granted
	if mode == weir.CountDenied {
		n = a.N // R6: granted or not
	}
	if n == 0 {
		return v, nil
	}
	after := view{now: v.now, limits: v.limits}
	for i, limit := range v.limits {
		h := v.past[i].pruned(limit, v.now)
		units := v.unitsOf(i, n)
		if mode == weir.CountDenied {
			units = min(units, limit.Max)
		}
		if a.Op == weir.OpRecord && h.since(-1) > weir.MaxUnits-units {
			return v, fmt.Errorf("%w: limit %q holds %d, %d more pass %d; record less, or reset the key",
				weir.ErrOverflow, limit.Name, h.since(-1), units, weir.MaxUnits)
		}
		h = h.plus(h.open(limit, v.now), units)
		h.tried, h.last = true, v.now
		if mode == weir.CountDenied {
			h = h.filled().trimmed(limit.Max)
		}
		after.past = append(after.past, h.filled())
	}
	return after, nil
}

// refund is v after up to n units of the entry granted at instant at were taken
// back in every limit, and the most that were taken in one (R10). Neither last nor
// any other entry changes, so a later decision at an earlier instant is right, too.
func (v view) refund(at, n int64) (view, int64) {
	after := view{now: v.now, limits: v.limits}
	most := int64(0)
	for i, limit := range v.limits {
		h := v.past[i]
		h.entries = slices.Clone(h.entries)
		cutoff := v.now - limit.Window
		holder := h.holder(limit, at, cutoff)
		for j, e := range h.entries {
			// An entry that no longer counts keeps its units, and a cost of its
			// own stays: the attempt was made (R10).
			if e.u == holder && e.u > cutoff && limit.Cost == 0 {
				taken := min(n, e.units)
				h.entries[j].units -= taken
				most = max(most, taken)
			}
		}
		after.past = append(after.past, h.filled())
	}
	return after, most
}

// moments are the instants from which an attempt may fit: now, the end of each entry (R3),
// and the end of each minimum interval (R5).
func (v view) moments() []int64 {
	all := []int64{v.now}
	for i, limit := range v.limits {
		if v.past[i].tried {
			all = append(all, v.past[i].last+limit.MinInterval)
		}
		for _, e := range v.past[i].entries {
			all = append(all, e.u+limit.Window)
		}
	}
	return all
}

// wait is the least time after which an attempt of n would be granted in full if no other
// call intervenes, found by trying (R8).
func (v view) wait(n int64) time.Duration {
	least := int64(-1)
	for _, s := range v.moments() {
		later := view{now: s, limits: v.limits, past: v.past}
		if s >= v.now && (least < 0 || s < least) && later.fits(n) {
			least = s
		}
	}
	if least < 0 {
		return weir.Never // it does not fit when all units have left: n > Max
	}
	return micros(least - v.now)
}

// alone is v with limit i only.
func (v view) alone(i int) view {
	return view{now: v.now, limits: v.limits[i : i+1], past: v.past[i : i+1]}
}

// reset is the time until no unit counts (R8).
func (v view) reset() time.Duration {
	longest := int64(0)
	for i, limit := range v.limits {
		for _, e := range v.past[i].entries {
			if e.units > 0 {
				longest = max(longest, e.u+limit.Window-v.now)
			}
		}
	}
	return micros(longest)
}

// micros converts a number of microseconds to a duration.
func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
