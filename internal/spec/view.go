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
	past   []history // one for each limit
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
		v.past[i] = h.paced(limits[i], v.now)
	}
	return v
}

// used is the units of limit i that count now (R3), or that are missing from a bucket (R16).
func (v view) used(i int) int64 {
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
// or, without one, n. An attempt of 0 takes none (R7), nor does a peek among calls that are
// decided together, whose cost is below 0.
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
	case c.Rules.Mode == engine.Partial && v.open() && v.blocked() == 0 && v.room() > 0:
		return min(c.N, v.room())
	}
	return 0
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
	after := view{now: v.now, limits: v.limits, blocks: v.blocks}
	for i, limit := range v.limits {
		h := v.past[i]
		if limit.Cost >= 0 { // below 0 it is a peek (R4)
			var err error
			if h, err = v.recordIn(i, c, n, granted); err != nil {
				return v, err
			}
		}
		after.past = append(after.past, h)
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
		return history{bucket: b, tried: true, last: v.now}, err
	}
	if c.Op == engine.Record && h.since(-1)+units > engine.MaxUnits {
		return h, fmt.Errorf("%w: limit %q holds %d, %d more pass %d; record less, or reset the key",
			engine.ErrOverflow, limit.Name, h.since(-1), units, engine.MaxUnits)
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
		if b.units(v.now)+units > limit.Refill.MaxExact {
			return nil, fmt.Errorf("%w: limit %q misses %d, %d more pass %d; record less, or reset the key",
				engine.ErrOverflow, limit.Name, b.units(v.now), units, limit.Refill.MaxExact)
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
	after := view{now: v.now, limits: v.limits, blocks: v.blocks}
	most := int64(0)
	for i := range v.limits {
		h, taken := v.refundIn(i, at, n)
		after.past = append(after.past, h)
		most = max(most, min(taken, n))
	}
	return after, most
}

// refundIn is the history of limit i after a refund, and the units that were taken in it.
func (v view) refundIn(i int, at, n int64) (history, int64) {
	limit, h := v.limits[i], v.past[i]
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

// moments are the instants from which an attempt of n may fit: now, the end of each entry
// (R3), the end of each minimum interval (R5), and the instant at which a bucket holds
// enough (R16).
func (v view) moments(n int64) []int64 {
	all := []int64{v.now}
	for i, limit := range v.limits {
		all = append(all, v.blocks[i].end())
		if v.past[i].tried {
			all = append(all, v.past[i].last+limit.MinInterval)
		}
		for _, e := range v.past[i].entries {
			all = append(all, leaves(limit, e.u, v.now))
		}
		if b := v.past[i].bucket; b != nil {
			all = append(all, b.until(limit.Capacity-v.unitsOf(i, n)))
		}
	}
	return all
}

// wait is the least time after which an attempt of n would be granted in full if no other
// call intervenes, found by trying (R8).
func (v view) wait(n int64) time.Duration {
	least := int64(-1)
	for _, s := range v.moments(n) {
		later := view{now: s, limits: v.limits, past: v.past, blocks: v.blocks}
		if s >= v.now && (least < 0 || s < least) && later.fits(n) {
			least = s
		}
	}
	if least < 0 {
		return engine.Never // it does not fit when all units have left: n > Max
	}
	return micros(least - v.now)
}

// alone is v with limit i only.
func (v view) alone(i int) view {
	return view{now: v.now, limits: v.limits[i : i+1], past: v.past[i : i+1], blocks: v.blocks[i : i+1]}
}

// reset is the time until no unit counts and no block runs (R8).
func (v view) reset() time.Duration {
	longest := int64(0)
	for i, limit := range v.limits {
		for _, e := range v.past[i].entries {
			if e.units > 0 && e.u > cutoff(limit, v.now) {
				longest = max(longest, leaves(limit, e.u, v.now)-v.now)
			}
		}
		if b := v.past[i].bucket; b != nil && b.units(v.now) > 0 {
			longest = max(longest, b.until(0)-v.now)
		}
	}
	return max(micros(longest), v.blocked())
}

// micros converts a number of microseconds to a duration.
func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
