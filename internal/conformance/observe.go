package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// observe adds a step with its right answer a, and remembers the instants that a announces.
func (g *randomHistory) observe(s step, a answer) {
	s.want = a
	g.v.steps = append(g.v.steps, s)
	if s.op == opChange {
		if len(s.words) > 1 && strings.HasPrefix(s.words[1], "kind=") {
			g.undo = g.policy.undo(s.words[0])
		}
		mustBeValid(g.policy.change(s.words))
		g.changed = true
		g.buckets = g.buckets || g.policy.buckets()
		return
	}
	limits := g.policy.current()
	g.contract.observe(limits, g.policy.mode, s, a)
	if !s.readsOnly() {
		g.now, g.wrote = s.at, -1
	}
	if s.writes(g.policy.mode, a) {
		g.wrote = g.place(s)
	}
	if a.err != "" {
		return
	}
	if s.usesReservation() {
		g.book(s, a)
	}
	if a.decision.Replayed {
		return
	}
	if blocked := a.decision.Blocked; blocked > 0 {
		g.announce(g.at(a.decision) + blocked)
		if !s.readsOnly() {
			g.newest = max(g.newest, g.at(a.decision))
		}
	}
	if (s.op == opSettle || s.op == opExtend) && s.writes(g.policy.mode, a) {
		g.recorded(limits, g.at(a.decision))
	}
	if s.op == opRefund && a.units > 0 {
		g.newest = max(g.newest, s.at) // a cancel, or appointments that have begun, move it (R18)
	}
	if s.op == opRefund && s.id != "" && a.units > 0 {
		g.remember(s, s.at)
		g.announce(g.newest + g.longest()) // the instant of the refund, if R2 moved it forward
	}
	if !s.decides() {
		return
	}
	if s.id != "" {
		g.remember(s, g.at(a.decision))
	}
	g.decided(limits, s, a.decision)
	for _, state := range a.states {
		g.announce(g.at(a.decision)+state.NextAfter, g.at(a.decision)+state.MinIntervalAfter)
	}
}

// remember keeps a step with an id, decided at that instant, and announces the end of its
// time to live.
func (g *randomHistory) remember(s step, at time.Duration) {
	g.done = lastFew(append(g.done, s), 8)
	g.announce(at+time.Minute, at+g.longest())
}

// place returns the index of the step's key.
func (g *randomHistory) place(s step) int {
	return slices.IndexFunc(g.keys, func(k []keyPart) bool { return holds(k, s.key) })
}

func (g *randomHistory) decided(limits []weir.Limit, s step, d weir.Decision) {
	at := g.at(d)
	who := g.place(s)
	g.room[who] = d.Remaining
	if d.RetryAfter != weir.Never {
		g.announce(at + d.RetryAfter)
	}
	g.announce(at + d.ResetAfter)
	if s.op == opPeek || s.op == opProbe || s.n == 0 || !d.Allowed && g.policy.mode != weir.CountDenied {
		return
	}
	start := at + d.StartAfter
	g.grants = lastFew(append(g.grants, grant{start, who, s.n}), 8)
	g.recorded(limits, at)
	if d.StartAfter > 0 {
		g.announce(start)
		for _, limit := range limits {
			g.announce(start+limit.Window, start+limit.MinInterval)
		}
	}
}

// recorded announces the instants at which units leave that were recorded at an instant.
func (g *randomHistory) recorded(limits []weir.Limit, at time.Duration) {
	g.newest = max(g.newest, at)
	for _, limit := range limits {
		g.announce(at+limit.Window, at+limit.MinInterval)
	}
}

// at returns the instant of a decision, relative to the epoch.
func (g *randomHistory) at(d weir.Decision) time.Duration { return d.At.Sub(time.UnixMicro(g.v.epoch)) }

// announce remembers instants at which something changes. It keeps the last 24.
func (g *randomHistory) announce(at ...time.Duration) { g.edges = lastFew(append(g.edges, at...), 24) }

// lastFew returns the last n elements of s, or all.
func lastFew[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }

// holds reports whether k has every one of parts.
func holds(k, parts []keyPart) bool {
	return !slices.ContainsFunc(parts, func(p keyPart) bool { return !slices.Contains(k, p) })
}

// longest returns the time for which an operation is remembered, if that is above a minute.
func (g *randomHistory) longest() time.Duration {
	longest := time.Duration(0)
	for _, limit := range g.policy.current() {
		longest = max(longest, limit.Window+cell(limit)) // a bucket needs at most this
	}
	return longest
}

// probes returns the two peeks that try an announced wait: a microsecond before its end,
// and at its end (R8). ok is false if the wait cannot be tried: the clock was behind, or a
// bucket has changed its rate, and nothing was recorded, so the next peek finds another
// state (R2, R12); a history may be forgotten by then (R13); or time ends sooner.
func (g *randomHistory) probes(s step, a answer) (before, after step, ok bool) {
	d := a.decision
	if a.err != "" || !s.decides() || d.Replayed || d.RetryAfter == weir.Never {
		return before, after, false
	}
	recorded := (s.op == opTake || s.op == opRecord) && s.n > 0
	if !recorded && (g.at(d) < g.newest || g.buckets && g.changed) {
		return before, after, false
	}
	after = step{op: opPeek, n: s.n, key: s.key, at: g.at(d) + d.RetryAfter}
	before = after
	before.at -= us
	ends := time.Duration(weir.MaxInstant-g.v.epoch) * us
	return before, after, g.at(d) <= after.at && after.at <= ends && !g.contract.stale(g.policy.current(), after)
}
