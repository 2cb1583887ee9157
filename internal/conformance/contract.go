package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// contract decides which steps an engine must answer by the rules. Engines may forget a
// history when its newest entry no longer counts (R13); the specification never does. So
// some steps are out of contract: those at an instant far behind a write, and those on
// a history that had expired before its window became longer. So are steps on a history that may
// have been empty, or a full bucket, before its interval became longer or its rate changed. Peeks,
// counts and denials write nothing, at any instant (R4).
type contract struct {
	epoch int64         // microseconds since 1970
	high  time.Duration // the furthest instant of a write so far
	lives map[string]life
}

// life is the time for which a history must be kept.
type life struct {
	until time.Duration // an entry counts before this instant
	limit weir.Limit    // with the numbers at the time when until was set
	last  time.Duration // the instant of the newest recorded attempt

	// From this instant on nothing may count: no unit is missing from a bucket, or a refund has
	// removed the newest entry.
	empty time.Duration
}

// maxBack is the greatest distance of a step behind the furthest write. R13 demands an hour
// where the caller passes the instants.
const maxBack = 30 * time.Minute

func newContract(epoch int64) *contract { return &contract{epoch: epoch, lives: map[string]life{}} }

// floor returns the earliest instant of a step in contract.
func (c *contract) floor() time.Duration { return c.high - maxBack }

// stale reports whether the step needs a history that the engine may have forgotten while
// a longer window still counts it. A reset needs none.
func (c *contract) stale(limits []weir.Limit, s step) bool {
	if s.op == opReset {
		return false
	}
	for _, limit := range limits {
		if l, ok := c.lives[historyOf(limit, s.key)]; ok && l.isStale(limit, s) {
			return true
		}
	}
	return false
}

// isStale reports whether the history of the limit may be forgotten, and the step would find it.
func (l life) isStale(limit weir.Limit, s step) bool {
	isEmpty := s.at >= l.empty
	paced := limit.Max == l.limit.Max && limit.Window == l.limit.Window
	switch {
	case limit.Window > l.limit.Window && s.at >= l.until:
		return true
	case limit.MinInterval > l.limit.MinInterval && isEmpty:
		return true
	}
	return limit.Kind == weir.KindBucket && isEmpty && !paced && !s.readsOnly() // R12
}

// observe updates the contract by a step and its answer.
func (c *contract) observe(limits []weir.Limit, mode weir.Mode, s step, a answer) {
	if a.decision.Replayed || a.err != "" {
		return
	}
	wrote := s.writes(mode, a)
	if wrote {
		c.high = max(c.high, s.at)
	}
	for _, limit := range limits {
		if s.op == opReset && !slices.Contains(a.reset, limit.Name) {
			continue
		}
		id := historyOf(limit, s.key)
		l, ok := c.lives[id]
		switch {
		case s.readsOnly() || s.op == opProbe || s.op == opBlock || s.n == 0 && s.decides():
		case s.op == opReset:
			for limit.Kind = weir.KindRolling; limit.Kind <= weir.KindConcurrency; limit.Kind++ {
				delete(c.lives, historyOf(limit, s.key))
			}
		case !ok && !wrote:
		case s.records(mode, a) || !ok && s.op != opRefund:
			c.lives[id] = c.newLife(limit, s.at)
		default: // it may have been re-dated (R2), or recorded, or neither
			l.until, l.empty = min(l.until, s.at+limit.Window), min(l.empty, s.at)
			if wrote && s.op != opRefund {
				l.limit.Window, l.limit.MinInterval = min(l.limit.Window, limit.Window), min(l.limit.MinInterval, limit.MinInterval)
			}
			if wrote && (s.op == opRefund || s.op == opSettle || s.op == opExtend) {
				l.empty = min(l.empty, l.last+l.limit.MinInterval)
			}
			c.lives[id] = l
		}
	}
}

// newLife returns the life of a history in which units were recorded at an instant.
func (c *contract) newLife(limit weir.Limit, at time.Duration) life {
	l := life{until: at + limit.Window, limit: limit, last: at, empty: at + limit.Window}
	switch {
	case limit.Kind == weir.KindFixed && limit.Period != 0: // whose windows end at any time
		l.until, l.empty = at, at+limit.MinInterval
	case limit.Kind == weir.KindFixed:
		l.until = at + limit.Window - duration((c.epoch+at.Microseconds())%limit.Window.Microseconds())
		l.empty = max(l.until, at+limit.MinInterval)
	case limit.Max == 0: // a denial that counts has no entry (R6)
		l.empty = at + limit.MinInterval
	case limit.Kind == weir.KindBucket:
		l.empty = at + max(limit.Window/time.Duration(limit.Max), limit.MinInterval) // one unit has flowed in
	}
	return l
}

// historyOf names the history of the limit and its kind that counts the key.
func historyOf(limit weir.Limit, key []keyPart) string {
	var b strings.Builder
	b.WriteString(limit.Name + "\x00" + limit.Kind.String())
	for _, part := range key {
		if slices.Contains(limit.By, part.dim) {
			b.WriteString("\x00" + part.dim + "\x00" + part.value)
		}
	}
	return b.String()
}
