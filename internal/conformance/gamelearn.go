package conformance

import (
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// learn remembers a step that was done, and what its right answer announced.
func (g *game) learn(s step, a answer) {
	s.want = a
	g.v.steps = append(g.v.steps, s)
	if s.op == opChange {
		mustBeRight(g.book.change(s.words))
		return
	}
	limits := g.book.policy("").Limits
	g.rules.note(limits, g.book.mode, s, a)
	if !s.looks() {
		g.now, g.wrote = s.at, -1
	}
	if s.writes(g.book.mode, a) {
		g.wrote = g.place(s)
	}
	if a.err != "" || a.decision.Replayed {
		return
	}
	if s.op == opRefund && s.id != "" && a.units > 0 {
		g.finish(s, s.at)
		g.announce(g.newest + g.longest()) // the instant of the refund, if R2 moved it ahead
	}
	if !s.decides() {
		return
	}
	if s.id != "" {
		g.finish(s, g.at(a.decision))
	}
	g.decided(limits, s, a.decision)
	for _, state := range a.states {
		g.announce(g.at(a.decision)+state.NextAfter, g.at(a.decision)+state.MinIntervalAfter)
	}
}

// finish remembers a step with an id, made at that instant, and when it is forgotten.
func (g *game) finish(s step, at time.Duration) {
	g.done = lastFew(append(g.done, s), 8)
	g.announce(at+time.Minute, at+g.longest())
}

// place is the place of the step's key among the game's.
func (g *game) place(s step) int {
	return slices.IndexFunc(g.keys, func(k []keyPart) bool { return holds(k, s.key) })
}

func (g *game) decided(limits []weir.Limit, s step, d weir.Decision) {
	at := g.at(d)
	who := g.place(s)
	g.room[who] = d.Remaining
	if d.RetryAfter != weir.Never {
		g.announce(at + d.RetryAfter)
	}
	g.announce(at + d.ResetAfter)
	if s.op == opPeek || s.n == 0 || !d.Allowed && g.book.mode != weir.CountDenied {
		return
	}
	g.newest = max(g.newest, at)
	g.grants = lastFew(append(g.grants, grant{at, who, s.n}), 8)
	for _, limit := range limits {
		g.announce(at+limit.Window, at+limit.MinInterval)
	}
}

// at is the instant of a decision, relative to the epoch.
func (g *game) at(d weir.Decision) time.Duration { return d.At.Sub(time.UnixMicro(g.v.epoch)) }

// announce remembers instants at which something changes, the latest few of them.
func (g *game) announce(at ...time.Duration) { g.edges = lastFew(append(g.edges, at...), 24) }

// lastFew is the last n of s, or all of it.
func lastFew[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }

// holds reports whether every part of the key is one of k's.
func holds(k, parts []keyPart) bool {
	return !slices.ContainsFunc(parts, func(p keyPart) bool { return !slices.Contains(k, p) })
}

// longest is for how long an operation is remembered where that is above a minute.
func (g *game) longest() time.Duration {
	longest := time.Duration(0)
	for _, limit := range g.book.policy("").Limits {
		w := limit.Window
		if limit.Cells > 0 {
			us, b := w.Microseconds(), int64(limit.Cells)
			w += time.Duration((us+b-1)/b) * time.Microsecond
		}
		longest = max(longest, w)
	}
	return longest
}

// probes are the two peeks that try an announced wait: a microsecond before it,
// where there is one, and at it (R8). ok is false where the wait cannot be tried:
// nothing was recorded while the clock was behind, so that the next look will see
// another state (R2), a history may have been forgotten by then (R13), or time ends
// sooner.
func (g *game) probes(s step, a answer) (before, after step, ok bool) {
	d := a.decision
	if a.err != "" || !s.decides() || d.Replayed || d.RetryAfter == weir.Never {
		return before, after, false
	}
	recorded := s.op != opPeek && s.n > 0
	if !recorded && g.at(d) < g.newest {
		return before, after, false
	}
	after = step{op: opPeek, n: s.n, key: s.key, at: g.at(d) + d.RetryAfter}
	before = after
	before.at -= us
	ends := time.Duration(weir.MaxUnits-g.v.epoch) * us
	return before, after, after.at <= ends && !g.rules.stale(g.book.policy("").Limits, after)
}
