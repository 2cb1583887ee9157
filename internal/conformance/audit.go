package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// grantSpan is a grant as seen from outside. It happened at some instant between from and
// to; the engine reported the instant at.
type grantSpan struct {
	from, to time.Duration // since the history began
	at       int64         // microseconds since 1970
	units    int64
}

// audit returns a description of the first broken promise, or "".
func (h *concurrentHistory) audit() string {
	for i, limit := range h.policy.limits {
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

// stalled reports whether a call took so long that the engine may have found its clock
// behind by a second and re-dated entries (R2). The instants that it reported before are
// then void; the times of call and return stay valid.
func (h *concurrentHistory) stalled() bool { return slices.ContainsFunc(h.calls, call.stalled) }

func (c call) stalled() bool { return c.to-c.from > 500*time.Millisecond }

// histories returns the grants of limit i, by the history that counts them.
func (h *concurrentHistory) histories(i int) map[string][]grantSpan {
	m := map[string][]grantSpan{}
	for _, c := range h.calls {
		if c.decision.Granted > 0 {
			id := h.ids[i][c.key]
			m[id] = append(m[id], grantSpan{c.from, c.to, c.decision.At.UnixMicro(), c.decision.Granted})
		}
	}
	return m
}

// auditOutside uses only the times of call and return. If several calls lie entirely
// within less than a window, all their grants do. Engines cut instants to microseconds,
// so a window may be up to a microsecond shorter than declared.
func auditOutside(grants []grantSpan, limit weir.Limit) string {
	if units := mostWithin(grants, limit.Window-us, func(g grantSpan) int64 { return g.units }); units > mostIn(limit) {
		return fmt.Sprintf("%d units provably granted within %v, at most %d allowed\n  The promise: %s\n  %s",
			units, limit.Window, mostIn(limit), promise, quoteRule(3))
	}
	if n := mostWithin(grants, limit.MinInterval-us, func(grantSpan) int64 { return 1 }); n > 1 {
		return fmt.Sprintf("%d grants provably within the minimum interval of %v\n  %s", n, limit.MinInterval, quoteRule(5))
	}
	return ""
}

// mostWithin returns the greatest sum of weights that lies entirely within less than span.
func mostWithin(grants []grantSpan, span time.Duration, weight func(grantSpan) int64) int64 {
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

// auditInstants trusts the engine's instants. It checks every half-open window that begins
// with a grant, to the microsecond.
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
				sum, limit.Window, first.at, mostIn(limit), promise, quoteRule(3))
		}
		if i > 0 && first.at-grants[i-1].at < gap {
			return fmt.Sprintf("grants at %d and %d, at least %v apart demanded\n  %s", grants[i-1].at, first.at, limit.MinInterval, quoteRule(5))
		}
	}
	return ""
}

// auditStates compares the final state of limit i with the grants: no grant was lost, and
// nothing else was recorded. It skips CountDenied, because denials are recorded there.
func (h *concurrentHistory) auditStates(i int, histories map[string][]grantSpan) string {
	limit := h.policy.limits[i]
	if h.policy.mode == weir.CountDenied || h.stalled() {
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
			return fmt.Sprintf("history %q holds %d units at %d, but the grants that count then have %d\n  %s\n  %s",
				h.ids[i][key], got, s.at, want, quoteRule(7), quoteRule(4))
		}
	}
	return ""
}

// mostIn returns the units that a window's length of the limit may hold. With fixed windows
// they are those of two windows.
func mostIn(limit weir.Limit) int64 {
	if limit.Kind != weir.Rolling {
		return 2 * limit.Max
	}
	return limit.Max
}

// auditFixed trusts the engine's instants and checks that no fixed window holds more than
// Max. It skips FirstHit windows in CountDenied, because denials open windows there.
func (h *concurrentHistory) auditFixed(grants []grantSpan, limit weir.Limit) string {
	if h.policy.mode == weir.CountDenied && limit.Kind == weir.FirstHit {
		return ""
	}
	sums := map[int64]int64{}
	for i, begin := range marks(limit, grants) {
		sums[begin] += grants[i].units
		if sums[begin] > limit.Max {
			return fmt.Sprintf("%d units in the fixed window of %v from %d, at most %d allowed\n  %s",
				sums[begin], limit.Window, begin, limit.Max, quoteRule(3))
		}
	}
	return ""
}

// marks sorts the grants and returns the instants under which they are stored.
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

// markOf returns the instant under which an entry is stored (R3, R9).
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

// auditDenials finds a denial that no limit can have caused: all units that may have
// counted at its instant left room, and the minimum interval was over.
func (h *concurrentHistory) auditDenials() string {
	if h.policy.mode != weir.AllOrNothing || h.stalled() {
		return ""
	}
	for _, c := range h.calls {
		if !c.decision.Allowed && !h.justified(c) {
			return fmt.Sprintf("an attempt of %d units was denied between %v and %v (by limit %q), though every limit had room and its minimum interval was over\n  %s\n  %s",
				c.n, c.from, c.to, c.decision.Limit, quoteRule(5), quoteRule(4))
		}
	}
	return ""
}

// justified reports whether some limit may have denied c.
func (h *concurrentHistory) justified(c call) bool {
	for i, limit := range h.policy.limits {
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

// longest returns the longest time that an entry of the limit may count, seen from outside:
// a window, one cell (R9), and the microsecond that instants are cut to.
func longest(limit weir.Limit) time.Duration {
	if limit.Cells == 0 {
		return limit.Window + us
	}
	return limit.Window + limit.Window/time.Duration(limit.Cells) + 2*us
}
