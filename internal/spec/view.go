package spec

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
)

// view is the state that one decision reads: an instant, and for each limit its history
// as of that instant. Its methods do not change it.
type view struct {
	now    int64
	limits []engine.Limit
	past   []history // one for each limit, with the appointments that have begun as entries (R18)
	stored []history // one for each limit, to be stored if the operation adds nothing to it (R2)
	wrote  []bool    // one for each limit, or nil: the operation changed its history
	blocks []block   // one for each limit
}

// second is the least time by which a clock is behind if R2 takes it as corrected.
const second = 1_000_000

// see applies R2. If the clock is behind by less than a second, the decision happens at
// the newest such entry, or at the beginning of such a block. A history or a block further ahead
// is from before a correction of the clock: its future counts as of now.
func see(limits []engine.Limit, past []history, blocks []block, clock int64) view {
	v := view{now: clock, limits: limits, past: past, blocks: blocks}
	for _, b := range blocks {
		if b.begin > clock && b.begin-clock < second {
			v.now = max(v.now, b.begin)
		}
	}
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
	for i, b := range blocks {
		if b.begin-clock >= second {
			v.blocks[i].begin = v.now
		}
	}
	for i, h := range v.past {
		begun := h.folded(limits[i], v.now)
		v.past[i] = begun.paced(limits[i], v.now)
		v.stored = append(v.stored, h)
		if begun.bucket != nil && v.past[i].bucket != begun.bucket {
			v.stored[i] = v.past[i] // a changed rate is stored, with begun appointments (R12)
		}
	}
	return v
}

// next is v after an operation, with other histories.
func (v view) next() view {
	return view{now: v.now, limits: v.limits, stored: v.stored, blocks: v.blocks}
}

// with adds the history of the next limit after an operation, which changed it or did not.
func (v view) with(h history, wrote bool) view {
	v.past, v.wrote = append(v.past, h), append(v.wrote, wrote)
	return v
}

// at is v as it is at an instant from now on, if no other call intervenes.
func (v view) at(instant int64) view {
	later := view{now: instant, limits: v.limits, blocks: v.blocks}
	for i, h := range v.past {
		later.past = append(later.past, h.folded(v.limits[i], instant))
	}
	return later
}

// used is the units of limit i that count now (R3), or that are missing from a bucket (R16).
// Those of appointments count from their booking on (R18).
func (v view) used(i int) int64 { return v.begun(i) + v.past[i].booked() }

// begun is used without appointments.
func (v view) begun(i int) int64 {
	if b := v.past[i].bucket; b != nil {
		return b.units(v.now)
	}
	return v.past[i].since(cutoff(v.limits[i], v.now))
}

// roomOf is the number of units that limit i still takes; below 0 after a Record, in
// CountDenied, or after Max was lowered (R5, R10, R12).
func (v view) roomOf(i int) int64 { return v.limits[i].Capacity - v.used(i) }

// remainingOf is the room of limit i that an answer has: none while a block runs (R20).
func (v view) remainingOf(i int) int64 {
	if v.blockedOf(i) {
		return min(0, v.roomOf(i))
	}
	return v.roomOf(i)
}

// remaining is the least of remainingOf over all limits.
func (v view) remaining() int64 {
	least := v.remainingOf(0)
	for i := range v.limits {
		least = min(least, v.remainingOf(i))
	}
	return least
}

// blockedOf reports whether a block of limit i runs (R20).
func (v view) blockedOf(i int) bool { return v.blocks[i].rest(v.now) > 0 }

// blocked is the rest of the longest block that runs.
func (v view) blocked() time.Duration {
	longest := int64(0)
	for _, b := range v.blocks {
		longest = max(longest, b.rest(v.now))
	}
	return micros(longest)
}

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
	interval := v.limits[i].MinInterval
	return !v.past[i].tried || interval == 0 || v.now-v.past[i].newest() >= interval
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
// or, without one, n. An attempt of 0 takes none (R7). Nor does a peek among calls that are decided
// together, which has a cost below 0.
func (v view) unitsOf(i int, n int64) int64 {
	if cost := v.limits[i].Cost; cost != 0 && n > 0 {
		return max(0, cost)
	}
	return n
}

// fits reports whether an attempt of n would be granted in full (R5, R6).
func (v view) fits(n int64) bool {
	for i := range v.limits {
		if v.unitsOf(i, n) > v.roomOf(i) || v.blockedOf(i) {
			return false
		}
	}
	return v.open()
}

// grant is the number of units granted to the request (R6, R10).
func (v view) grant(c *engine.Call) int64 {
	switch {
	case c.Op == engine.Record || v.fits(c.N):
		return c.N
	case modeOf(c) == engine.Partial && v.open() && v.blocked() == 0 && v.room() > 0:
		return min(c.N, v.room())
	}
	return 0
}

// start is the instant at which an attempt that does not fit now may begin: the first at which it
// fits, if the call waits for so long (R18). now stands for none.
func (v view) start(c *engine.Call) int64 {
	wait := v.wait(c.N)
	if c.Op != engine.Attempt || c.N == 0 || v.blocked() > 0 || wait > micros(c.MaxWait) {
		return v.now
	}
	if start := v.now + wait.Microseconds(); start <= engine.MaxInstant {
		return start
	}
	return v.now
}

// book is v after an attempt of n units was recorded at an instant ahead, in each limit (R18). It
// fails if a history would hold more than it can count.
func (v view) book(start, n int64) (view, error) {
	after := v.next()
	for i, limit := range v.limits {
		most := engine.MaxUnits
		h := v.past[i].pruned(limit, v.now)
		held := h.since(-1) + h.booked()
		if h.bucket != nil {
			most, held = limit.Refill.MaxExact, v.used(i)
		}
		units := v.unitsOf(i, n)
		if held+units > most {
			return v, overflow(limit, held, units, most)
		}
		h = h.with(start, units)
		h.tried, h.last = true, v.now
		after = after.with(h, true)
	}
	return after, nil
}

// overflow is the error of units that pass the most that a history can hold.
func overflow(limit engine.Limit, held, units, most int64) error {
	return fmt.Errorf("%w: limit %q holds %d, %d more pass %d; record less, or reset the key",
		engine.ErrOverflow, limit.Name, held, units, most)
}

// record is v after the request was granted that number of units: each limit has recorded
// the same attempt, or none has (R7). It fails if a record would take a history above
// MaxUnits; in CountDenied the entry is capped at Max first (R6, R10).
func (v view) record(c *engine.Call, granted int64) (view, error) {
	n := granted
	if c.Rules.Mode == engine.CountDenied {
		n = c.N // R6: granted or not
	}
	if n == 0 {
		return v, nil
	}
	after := v.next()
	for i, limit := range v.limits {
		h := v.past[i]
		if limit.Cost >= 0 { // below 0 it is a peek (R4)
			var err error
			if h, err = v.recordIn(i, c, n, granted); err != nil {
				return v, err
			}
		}
		after = after.with(h, limit.Cost >= 0)
	}
	return after, nil
}

// recordIn is the history of limit i after it recorded n units, of which a number were granted.
func (v view) recordIn(i int, c *engine.Call, n, granted int64) (history, error) {
	limit, h := v.limits[i], v.past[i].pruned(v.limits[i], v.now)
	units := v.unitsOf(i, n)
	if c.Rules.Mode == engine.CountDenied {
		units = min(units, limit.Max)
	}
	if h.bucket != nil {
		b, err := v.take(i, c, n, granted)
		return history{bucket: b, tried: true, last: v.now, ahead: h.ahead}, err
	}
	if held := h.since(-1) + h.booked(); c.Op == engine.Record && held+units > engine.MaxUnits {
		return h, overflow(limit, held, units, engine.MaxUnits)
	}
	h = h.plus(h.open(limit, v.now), units)
	h.tried, h.last = true, v.now
	if c.Rules.Mode == engine.CountDenied {
		h = h.filled().trimmed(limit.Max)
	}
	return h.filled(), nil
}

// take is the bucket of limit i after the request took its units. A denied attempt in
// CountDenied takes them until the bucket is empty. A record takes them in any mode, up to
// the most units of which the time to refill is exact (R16).
func (v view) take(i int, c *engine.Call, n, granted int64) (*bucket, error) {
	limit, b := v.limits[i], v.past[i].bucket
	if c.Op == engine.Record {
		units := v.unitsOf(i, n)
		if v.used(i)+units > limit.Refill.MaxExact {
			return nil, overflow(limit, v.used(i), units, limit.Refill.MaxExact)
		}
		return b.minus(v.now, units, engine.MaxUnits), nil
	}
	if c.Rules.Mode == engine.CountDenied && granted == 0 {
		return b.minus(v.now, v.unitsOf(i, n), limit.Capacity), nil
	}
	return b.minus(v.now, v.unitsOf(i, granted), engine.MaxUnits), nil
}

// refund is v after up to n units were taken back in every limit: from the entry granted at
// instant at, or from the oldest entries that count (R10). It also returns the most units that
// were taken in one limit. Neither last nor any other entry changes, so a later decision at an
// earlier instant is right, too.
func (v view) refund(at, n int64) (view, int64) {
	after := v.next()
	most := int64(0)
	for i := range v.limits {
		h, taken := v.refundIn(i, at, n, true)
		after = after.with(h, taken > 0)
		most = max(most, min(taken, n))
	}
	return after, most
}

// refundIn is the history of limit i after a refund, and the units that were taken in it. Of an
// appointment that has not begun it takes a cost too, if the attempt is not made: whole (R18).
func (v view) refundIn(i int, at, n int64, whole bool) (history, int64) {
	limit, h := v.limits[i], v.past[i]
	if h.isAhead(at) {
		if limit.Cost > 0 && !whole {
			return h, 0
		}
		return h.cancel(at, v.unitsOf(i, n), v.now)
	}
	if h.bucket != nil {
		b, taken := v.giveBack(i, at, n)
		h.bucket = b
		return h, taken
	}
	h.entries = slices.Clone(h.entries)
	cutoff := cutoff(limit, v.now)
	holder, left := h.holder(limit, at, cutoff), v.unitsOf(i, n)
	for j, e := range h.entries {
		// An entry that no longer counts keeps its units, and a cost of its own
		// stays, because the attempt was made (R10). A hold ends whole (R17).
		if (e.u == holder || at == engine.Oldest) && e.u > cutoff && (limit.Cost == 0 || limit.Kind == engine.KindConcurrency) {
			taken := min(left, e.units)
			h.entries[j].units -= taken
			left -= taken
		}
	}
	return h.filled(), v.unitsOf(i, n) - left
}

// giveBack is the bucket of limit i after a refund of n units granted at instant at, and
// the units that were taken back. A grant from before the bucket was last full is refilled
// already, and none is later than the newest attempt (R10, R16).
func (v view) giveBack(i int, at, n int64) (*bucket, int64) {
	b := v.past[i].bucket
	counts := at == engine.Oldest || b.at(v.now).since <= at && at <= v.past[i].last
	if !counts || v.limits[i].Cost > 0 || b.units(v.now) == 0 {
		return b, 0
	}
	return b.plus(v.now, n)
}

// moments are the instants from which an attempt of n may fit, in their order: now, the end of
// each entry (R3), the end of each minimum interval (R5), and the instant at which a bucket holds
// enough (R16); also those after each appointment (R18).
func (v view) moments(n int64) []int64 {
	all := []int64{v.now}
	for i, limit := range v.limits {
		all = append(all, v.blocks[i].end())
		if v.past[i].tried {
			all = append(all, v.past[i].newest()+limit.MinInterval)
		}
		for _, s := range v.past[i].stages(limit, v.now) {
			for _, e := range s.entries {
				all = append(all, leaves(limit, e.u, s.from))
			}
			if s.bucket != nil {
				all = append(all, s.bucket.until(limit.Capacity-v.unitsOf(i, n)-s.booked()))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// wait is the least time after which an attempt of n would be granted in full if no other
// call intervenes, found by trying (R8).
func (v view) wait(n int64) time.Duration {
	for _, s := range v.moments(n) {
		if s >= v.now && v.at(s).fits(n) {
			return micros(s - v.now)
		}
	}
	return engine.Never // it does not fit when all units have left: n > Max
}

// alone is v with limit i only.
func (v view) alone(i int) view {
	return view{now: v.now, limits: v.limits[i : i+1], past: v.past[i : i+1], blocks: v.blocks[i : i+1]}
}

// reset is the time until no unit counts and no block runs (R8).
func (v view) reset() time.Duration {
	longest := int64(0)
	for i, limit := range v.limits {
		for _, s := range v.past[i].stages(limit, v.now) {
			for _, e := range s.entries {
				if e.units > 0 && e.u > cutoff(limit, s.from) {
					longest = max(longest, leaves(limit, e.u, s.from)-v.now)
				}
			}
			if s.bucket != nil && s.bucket.units(s.from) > 0 {
				longest = max(longest, s.bucket.until(0)-v.now)
			}
		}
	}
	return max(micros(longest), v.blocked())
}

// micros converts a number of microseconds to a duration.
func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
