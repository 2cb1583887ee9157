package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// contract decides which steps an engine must answer by the rules. Engines may forget a
// history when its newest entry no longer counts (R13); the specification never does. So
// two kinds of steps are out of contract: those at an instant far behind a write, and those on
// a history that had expired before its window became longer. So are steps on a full bucket
// that had expired before its interval became longer. Peeks, counts and denials write nothing,
// at any instant (R4).
type contract struct {
	high  time.Duration // the furthest instant of a write so far
	lives map[string]life
}

// life is the time for which a history must be kept.
type life struct {
	until  time.Duration
	window time.Duration // at the time when until was set

	bucket   bool          // the following are set
	full     time.Duration // the bucket is not full before this instant, or its interval is not open
	interval time.Duration // at the time when full was set
}

// maxBack is the greatest distance of a step behind the furthest write. R13 demands an hour
// where the caller passes the instants.
const maxBack = 30 * time.Minute

func newContract() *contract { return &contract{lives: map[string]life{}} }

// floor returns the earliest instant of a step in contract.
func (c *contract) floor() time.Duration { return c.high - maxBack }

// stale reports whether the step needs a history that the engine may have forgotten while
// a longer window still counts it. A reset needs none.
func (c *contract) stale(limits []weir.Limit, s step) bool {
	if s.op == opReset {
		return false
	}
	for _, limit := range limits {
		l, ok := c.lives[historyOf(limit, s.key)]
		if ok && (limit.Window > l.window && s.at >= l.until || l.bucket && limit.MinInterval > l.interval && s.at >= l.full) {
			return true
		}
	}
	return false
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
			c.lives[id] = newLife(limit, s.at)
		default: // it may have been re-dated (R2), or recorded, or neither
			l.until, l.full = min(l.until, s.at+limit.Window), min(l.full, s.at)
			if wrote && s.op != opRefund {
				l.window, l.interval = min(l.window, limit.Window), min(l.interval, limit.MinInterval)
			}
			c.lives[id] = l
		}
	}
}

// newLife returns the life of a history in which units were recorded at an instant.
func newLife(limit weir.Limit, at time.Duration) life {
	l := life{until: at + limit.Window, window: limit.Window}
	if limit.Kind == weir.KindBucket {
		l.bucket, l.interval = true, limit.MinInterval
		l.full = at + max(limit.Window/time.Duration(limit.Max), limit.MinInterval) // one unit has flowed in
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
