package conformance

import (
	"cmp"
	"fmt"
	"math/big"
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
			// Engines cut instants to microseconds, so seen from outside a window may be up
			// to a microsecond shorter than declared.
			breach := auditSpans(grants, limit, us, "provably")
			if !h.stalled() {
				breach = cmp.Or(breach, auditSpans(byInstant(grants), limit, 0, "by the engine's instants"), h.auditFixed(grants, limit))
			}
			if breach != "" {
				return fmt.Sprintf("history %q: %s", id, breach)
			}
		}
		if breach := h.auditStates(i, histories); breach != "" {
			return breach
		}
	}
	return cmp.Or(h.auditBlocks(), h.auditDenials())
}

// stalled reports whether a call took so long that the engine may have found its clock
// behind by a second and re-dated entries (R2). The instants that it reported before are
// then void; the times of call and return stay valid.
func (h *concurrentHistory) stalled() bool { return slices.ContainsFunc(h.calls, call.stalled) }

func (c call) stalled() bool { return c.to-c.from > 500*time.Millisecond }

// histories returns the grants of limit i in the order of their instants, by the history
// that counts them.
func (h *concurrentHistory) histories(i int) map[string][]grantSpan {
	m := map[string][]grantSpan{}
	for _, c := range h.calls {
		if c.decision.Granted > 0 {
			id := h.ids[i][c.key]
			m[id] = append(m[id], grantSpan{c.from, c.to, c.decision.At.UnixMicro(), c.decision.Granted})
		}
	}
	for _, grants := range m {
		slices.SortFunc(grants, func(a, b grantSpan) int { return cmp.Compare(a.at, b.at) })
	}
	return m
}

// byInstant returns the grants as if each call had taken no time, at the engine's instant.
func byInstant(grants []grantSpan) []grantSpan {
	all := slices.Clone(grants)
	for i := range all {
		at := time.Duration(all[i].at-grants[0].at) * us
		all[i].from, all[i].to = at, at
	}
	return all
}

// auditSpans checks that grants which surely lie within a window fit the limit, and that no
// two of them surely lie within the minimum interval. Both are shortened by slack. A grant lies
// surely within a span if its call and return do.
func auditSpans(grants []grantSpan, limit weir.Limit, slack time.Duration, how string) string {
	if units := maxWithin(grants, limit.Window-slack, func(g grantSpan) int64 { return g.units }); units > maxIn(limit) {
		return fmt.Sprintf("%d units %s granted within %v, at most %d allowed\n  The promise: %s\n  %s",
			units, how, limit.Window, maxIn(limit), promise, quoteRule(3))
	}
	if n := maxWithin(grants, limit.MinInterval-slack, func(grantSpan) int64 { return 1 }); n > 1 {
		return fmt.Sprintf("%d grants %s within the minimum interval of %v\n  %s", n, how, limit.MinInterval, quoteRule(5))
	}
	return ""
}

// maxWithin returns the greatest sum of weights that lies entirely within less than span.
func maxWithin(grants []grantSpan, span time.Duration, weight func(grantSpan) int64) int64 {
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

// auditStates compares the final state of limit i with the grants: no grant was lost, and
// nothing else was recorded. It skips CountDenied, because denials are recorded there.
func (h *concurrentHistory) auditStates(i int, histories map[string][]grantSpan) string {
	limit := h.policy.limits[i]
	if h.policy.mode == weir.CountDenied || h.stalled() {
		return ""
	}
	for key, s := range h.last {
		grants := histories[h.ids[i][key]]
		if limit.Kind == weir.KindBucket {
			if _, left := missing(limit, grants, s.at); left != s.states[i].Used {
				return fmt.Sprintf("%d units are missing from the bucket %q at %d, but %d by its grants\n  %s",
					s.states[i].Used, h.ids[i][key], s.at, left, quoteRule(16))
			}
			continue
		}
		want := int64(0)
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

// maxIn returns the units that a window's length of the limit may hold. With fixed windows
// they are those of two windows.
func maxIn(limit weir.Limit) int64 {
	switch limit.Kind {
	case weir.KindFixed, weir.KindFixedFromFirst:
		return 2 * limit.Max
	case weir.KindBucket:
		return cmp.Or(limit.Burst, limit.Max) + limit.Max
	}
	return limit.Max
}

// missing replays grants on a full bucket, as exact fractions (R16). It returns the most
// whole units that were missing after one of them, and those that are missing at the end.
func missing(limit weir.Limit, grants []grantSpan, end int64) (most, left int64) {
	rate, m, last := big.NewRat(limit.Max, limit.Window.Microseconds()), new(big.Rat), int64(0)
	at := func(now int64) int64 {
		m.Sub(m, new(big.Rat).Mul(rate, big.NewRat(now-last, 1)))
		if last = now; m.Sign() < 0 {
			m.SetInt64(0)
		}
		whole, part := new(big.Int).DivMod(m.Num(), m.Denom(), new(big.Int))
		return whole.Int64() + int64(part.Sign())
	}
	for _, g := range grants {
		at(g.at)
		m.Add(m, big.NewRat(g.units, 1))
		most = max(most, at(g.at))
	}
	return most, at(end)
}

// auditFixed trusts the engine's instants and checks that no fixed window holds more than
// Max, and no bucket grants more than it held. It skips FixedFromFirst windows in CountDenied,
// because denials open windows there.
func (h *concurrentHistory) auditFixed(grants []grantSpan, limit weir.Limit) string {
	if limit.Kind == weir.KindBucket {
		if most, _ := missing(limit, grants, 0); most > cmp.Or(limit.Burst, limit.Max) {
			return fmt.Sprintf("%d units were missing from a bucket of %d\n  %s", most, cmp.Or(limit.Burst, limit.Max), quoteRule(16))
		}
		return ""
	}
	if limit.Kind == weir.KindRolling || limit.Kind == weir.KindConcurrency || h.policy.mode == weir.CountDenied && limit.Kind == weir.KindFixedFromFirst {
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

// marks returns the instants under which the grants are stored.
func marks(limit weir.Limit, grants []grantSpan) []int64 {
	window, all := limit.Window.Microseconds(), make([]int64, len(grants))
	for i, g := range grants {
		all[i] = markOf(limit, g.at)
		if limit.Kind == weir.KindFixedFromFirst && i > 0 && g.at < all[i-1]+window {
			all[i] = all[i-1] // the window that is open (R3)
		}
	}
	return all
}

// markOf returns the instant under which an entry is stored (R3, R9).
func markOf(limit weir.Limit, at int64) int64 {
	length := cell(limit).Microseconds()
	switch {
	case limit.Kind == weir.KindFixed:
		return at - at%limit.Window.Microseconds()
	case length == 0:
		return at
	}
	return at/length*length + length
}

// cell returns the length of a cell (R9), or 0 without cells.
func cell(limit weir.Limit) time.Duration {
	if limit.Cells == 0 {
		return 0
	}
	n := int64(limit.Cells)
	return time.Duration((limit.Window.Microseconds()+n-1)/n) * us
}

// auditDenials finds a denial that no limit can have caused: all units that may have
// counted at its instant left room, the minimum interval was over, and no block ran.
func (h *concurrentHistory) auditDenials() string {
	if h.policy.mode != weir.AllOrNothing || h.stalled() {
		return ""
	}
	begun := slices.DeleteFunc(h.beginnings(), func(b beginning) bool { return !h.justified(b.call) })
	for _, c := range h.calls {
		if !c.decision.Allowed && !h.justified(c) && !h.isBlocked(c, begun) {
			return fmt.Sprintf("an attempt of %d units was denied between %v and %v (by limit %q), though every limit had room, its minimum interval was over, and no block ran\n  %s\n  %s",
				c.n, c.from, c.to, c.decision.Limit, quoteRule(5), quoteRule(4))
		}
	}
	return ""
}

// justified reports whether some limit may have denied c.
func (h *concurrentHistory) justified(c call) bool {
	for i, limit := range h.policy.limits {
		counted, gap := int64(0), false
		var latest []grantSpan // for a bucket: as if each grant came as late as possible
		for _, g := range h.calls {
			if g.decision.Granted == 0 || g.from >= c.to || h.ids[i][g.key] != h.ids[i][c.key] {
				continue
			}
			if g.to > c.from-limit.Window-cell(limit)-us { // instants are cut to microseconds
				counted += g.decision.Granted
			}
			gap = gap || g.to > c.from-limit.MinInterval-us
			latest = append(latest, grantSpan{at: min(g.to, c.from).Microseconds() + 1, units: g.decision.Granted})
		}
		if limit.Kind == weir.KindBucket {
			slices.SortFunc(latest, func(a, b grantSpan) int { return cmp.Compare(a.at, b.at) })
			_, counted = missing(limit, latest, c.from.Microseconds())
		}
		if gap && limit.MinInterval > 0 || c.n > cmp.Or(limit.Burst, limit.Max)-counted {
			return true
		}
	}
	return false
}
