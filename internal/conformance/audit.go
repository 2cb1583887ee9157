package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// grantSpan is a grant as seen from outside: it happened at some instant between
// from and to, and the engine says it was at.
type grantSpan struct {
	from, to time.Duration // since the hammering began
	at       int64         // microseconds since 1970
	units    int64
}

// audit looks for a broken promise and describes the first it finds, or returns "".
func (h *hammering) audit() string {
	for i, limit := range h.book.limits {
		histories := h.histories(i)
		for id, grants := range histories {
			breach := auditOutside(grants, limit)
			if breach == "" && !h.stalled() {
				breach = auditInstants(grants, limit)
			}
			if breach == "" && !h.stalled() && limit.Kind != weir.Rolling {
				breach = h.auditFixed(grants, limit)
			}
			if breach != "" {
				return fmt.Sprintf("history %q: %s", id, breach)
			}
		}
		if breach := h.auditStates(i, histories); breach != "" {
			return breach
		}
	}
	return h.auditDenials()
}

// stalled reports whether a call took so long that the engine may have found its
// clock behind by a second and re-dated entries (R2). The instants it told before
// are then void; what callers saw from outside still holds.
func (h *hammering) stalled() bool { return slices.ContainsFunc(h.calls, call.stalled) }

func (c call) stalled() bool { return c.to-c.from > 500*time.Millisecond }

// histories are the grants of limit i, by the history that counts them.
func (h *hammering) histories(i int) map[string][]grantSpan {
	m := map[string][]grantSpan{}
	for _, c := range h.calls {
		if c.decision.Granted > 0 {
			id := h.ids[i][c.key]
			m[id] = append(m[id], grantSpan{c.from, c.to, c.decision.At.UnixMicro(), c.decision.Granted})
		}
	}
	return m
}

// auditOutside trusts nothing but the times of call and return. Grants whose
// calls lie entirely within less than a window were granted within a window,
// whenever within its call each was. Engines cut instants to microseconds, so a
// window may be up to one shorter than it says.
func auditOutside(grants []grantSpan, limit weir.Limit) string {
	if units := fullest(grants, limit.Window-us, func(g grantSpan) int64 { return g.units }); units > mostIn(limit) {
		return fmt.Sprintf("%d units provably granted within %v, at most %d allowed\n  The promise: %s\n  %s",
			units, limit.Window, mostIn(limit), promise, bullet(3))
	}
	if n := fullest(grants, limit.MinInterval-us, func(grantSpan) int64 { return 1 }); n > 1 {
		return fmt.Sprintf("%d grants provably within the gap of %v\n  %s", n, limit.MinInterval, bullet(5))
	}
	return ""
}

// fullest is the most of weight that lies entirely within less than span.
func fullest(grants []grantSpan, span time.Duration, weight func(grantSpan) int64) int64 {
	most := int64(0)
	for _, first := range grants {
		sum := int64(0)
		for _, g := range grants {
			if g.from >= first.from && g.to < first.from+span {
				sum += weight(g)
			}
		}
		most = max(most, sum)
	}
	return most
}

// auditInstants believes the engine's instants and looks at every half-open
// window that begins with one, to the microsecond.
func auditInstants(grants []grantSpan, limit weir.Limit) string {
	slices.SortFunc(grants, func(a, b grantSpan) int { return cmp.Compare(a.at, b.at) })
	window, gap := limit.Window.Microseconds(), limit.MinInterval.Microseconds()
	for i, first := range grants {
		sum := int64(0)
		for _, g := range grants[i:] {
			if g.at < first.at+window {
				sum += g.units
			}
		}
		if sum > mostIn(limit) {
			return fmt.Sprintf("%d units in the window of %v from %d, at most %d allowed\n  The promise: %s\n  %s",
				sum, limit.Window, first.at, mostIn(limit), promise, bullet(3))
		}
		if i > 0 && first.at-grants[i-1].at < gap {
			return fmt.Sprintf("grants at %d and %d, at least %v apart demanded\n  %s", grants[i-1].at, first.at, limit.MinInterval, bullet(5))
		}
	}
	return ""
}

// auditStates compares what limit i held when all was over with what the callers
// were granted: nothing was lost, and nothing was recorded that was not granted.
// In CountDenied refusals are recorded too, so that nothing can be said.
func (h *hammering) auditStates(i int, histories map[string][]grantSpan) string {
	limit := h.book.limits[i]
	if h.book.mode == weir.CountDenied || h.stalled() {
		return ""
	}
	for key, s := range h.last {
		want := int64(0)
		grants := histories[h.ids[i][key]]
		for j, mark := range marks(limit, grants) {
			if mark > s.at-limit.Window.Microseconds() {
				want += grants[j].units
			}
		}
		if got := s.states[i].Used; got != want {
			return fmt.Sprintf("history %q: it holds %d units at %d, the grants that count then are %d\n  %s\n  %s",
				h.ids[i][key], got, s.at, want, bullet(7), bullet(4))
		}
	}
	return ""
}

// mostIn is how many units any window's length of the limit may hold: of fixed
// windows, those of two.
func mostIn(limit weir.Limit) int64 {
	if limit.Kind != weir.Rolling {
		return 2 * limit.Max
	}
	return limit.Max
}

// auditFixed believes the engine's instants and looks at every fixed window: none
// holds more than Max. In CountDenied refusals open windows too, so that nothing can
// be said of those that begin with their first unit.
func (h *hammering) auditFixed(grants []grantSpan, limit weir.Limit) string {
	if h.book.mode == weir.CountDenied && limit.Kind == weir.FirstHit {
		return ""
	}
	sums := map[int64]int64{}
	for i, begin := range marks(limit, grants) {
		sums[begin] += grants[i].units
		if sums[begin] > limit.Max {
			return fmt.Sprintf("%d units in the fixed window of %v from %d, at most %d allowed\n  %s",
				sums[begin], limit.Window, begin, limit.Max, bullet(3))
		}
	}
	return ""
}

// marks are the instants that the grants are remembered by, which are sorted on the way.
func marks(limit weir.Limit, grants []grantSpan) []int64 {
	slices.SortFunc(grants, func(a, b grantSpan) int { return cmp.Compare(a.at, b.at) })
	window, all := limit.Window.Microseconds(), make([]int64, len(grants))
	for i, g := range grants {
		all[i] = markOf(limit, g.at)
		if limit.Kind == weir.FirstHit && i > 0 && g.at < all[i-1]+window {
			all[i] = all[i-1] // the window that is open (R3)
		}
	}
	return all
}

// markOf is the instant that an entry is remembered by (R3, R9).
func markOf(limit weir.Limit, at int64) int64 {
	switch {
	case limit.Kind == weir.Calendar:
		return at - at%limit.Window.Microseconds()
	case limit.Cells == 0:
		return at
	}
	b := int64(limit.Cells)
	cell := (limit.Window.Microseconds() + b - 1) / b
	return at/cell*cell + cell
}

// auditDenials looks for a refusal that no limit can have caused: whatever could
// have counted at its instant left room and gap.
func (h *hammering) auditDenials() string {
	if h.book.mode != weir.AllOrNothing || h.stalled() {
		return ""
	}
	for _, c := range h.calls {
		if !c.decision.Allowed && !h.justified(c) {
			return fmt.Sprintf("an attempt of %d units was refused between %v and %v (by limit %q), with room and gap in every limit\n  %s\n  %s",
				c.n, c.from, c.to, c.decision.Limit, bullet(5), bullet(4))
		}
	}
	return ""
}

// justified reports whether some limit may have refused c.
func (h *hammering) justified(c call) bool {
	for i, limit := range h.book.limits {
		counted, gap := int64(0), false
		for _, g := range h.calls {
			if g.decision.Granted == 0 || g.from >= c.to || h.ids[i][g.key] != h.ids[i][c.key] {
				continue
			}
			if g.to > c.from-longest(limit) {
				counted += g.decision.Granted
			}
			gap = gap || g.to > c.from-limit.MinInterval-us
		}
		if gap && limit.MinInterval > 0 || c.n > limit.Max-counted {
			return true
		}
	}
	return false
}

// longest is how long an entry of the limit may count, seen from outside: a
// window, one cell (R9), and the microsecond that instants are cut to.
func longest(limit weir.Limit) time.Duration {
	if limit.Cells == 0 {
		return limit.Window + us
	}
	return limit.Window + limit.Window/time.Duration(limit.Cells) + 2*us
}
