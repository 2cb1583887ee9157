package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// livePerHammer is the number of live histories per concurrent history.
const livePerHammer = 4

// live applies the histories. It returns a report of the first difference, or "".
func live(e engine.Engine, c Config) string {
	for i := range livePerHammer * c.Hammers {
		g := newLiveHistory(rand.New(rand.NewPCG(c.Seed, 1<<34+uint64(i))), e, &c)
		if m := g.play(); m != nil {
			return fmt.Sprintf("seed %d, live history %d: the engine and the specification differ.\n%s\nThe history, at the instants of its answers:\n\n%s",
				c.Seed, i, m, g.v.text())
		}
	}
	return ""
}

// liveHistory is a history by the engine's clock: a few keys that share limits, one call
// after the other. The specification gets every step at the instant of the engine's
// answer. Denied attempts are repeated between steps of other keys, because an engine may
// answer them from a cache.
type liveHistory struct {
	r         *rand.Rand
	got, want *session
	v         *vector
	begun     time.Time
	cacheTTL  time.Duration // as Config.CacheTTL
	separate  bool          // as Config.Separate

	long   bool          // no unit leaves a window during the history
	now    time.Duration // the newest instant of an answer
	denied []step        // denied attempts
	grants []step        // at the instants of their decisions

	reserves bool // many attempts open reservations
	openings []opening
	ids      int // of reservations so far

	fromStore []fromStore
}

// opening is an attempt that opened a reservation.
type opening struct {
	step
	booking
}

// maxLive bounds the time of a live history.
const maxLive = 5 * time.Second

func newLiveHistory(r *rand.Rand, e engine.Engine, c *Config) *liveHistory {
	g := &liveHistory{r: r, begun: time.Now(), cacheTTL: c.CacheTTL, separate: c.Separate, long: r.IntN(2) == 0, reserves: r.IntN(2) == 0}
	b := g.policy()
	for !c.permits(b) {
		b = g.policy()
	}
	g.v = &vector{name: "a live history", epoch: g.begun.UnixMicro(), policies: []*mutablePolicy{b}}
	g.v.write()
	g.got, g.want = validSession(e, g.v), validSession(c.spec(), g.v)
	g.got.live = true
	return g
}

// policy returns a policy of one to three limits of a few units.
func (g *liveHistory) policy() *mutablePolicy {
	r := g.r
	b := &mutablePolicy{name: "live", mode: []weir.Mode{weir.AllOrNothing, weir.AllOrNothing, weir.Partial, weir.CountDenied}[r.IntN(4)]}
	for i := range 1 + r.IntN(3) {
		limit := weir.Limit{Name: fmt.Sprintf("l%d", i), Max: 1 + r.Int64N(6)}
		if r.IntN(2) == 0 {
			limit.By = dimensionNames[:1]
		}
		limit.Window = time.Duration(5+r.IntN(100)) * time.Millisecond
		if g.long {
			limit.Window = 2*maxLive + time.Duration(r.IntN(3600))*time.Second
		} else if r.IntN(4) == 0 {
			limit.Kind = weir.KindFixed + weir.Kind(r.IntN(3))
		}
		if g.reserves && b.mode != weir.CountDenied && r.IntN(4) == 0 {
			limit.Kind = weir.KindConcurrency
		}
		if !g.long && r.IntN(6) == 0 {
			limit.Block = randomBlock(r, limit.Window)
		}
		if r.IntN(4) == 0 {
			limit.MinInterval = time.Duration(r.IntN(4000)) * us
		}
		b.add(limit)
	}
	return b
}

// play applies the steps and returns the first difference, or nil.
func (g *liveHistory) play() *mismatch {
	for range 60 {
		if g.r.IntN(4) == 0 {
			time.Sleep(time.Duration(g.r.IntN(3000)) * us)
		}
		s := g.next()
		if time.Since(g.begun) > maxLive {
			return nil // the machine was suspended or overloaded
		}
		got := g.got.do(s)
		s.at = g.instantOf(s, got)
		s.want = g.wanted(s, got)
		g.v.steps = append(g.v.steps, s)
		if !s.want.equal(got) {
			return &mismatch{g.v, len(g.v.steps) - 1, got}
		}
		g.rememberDenial(s, got)
		g.observe(s)
	}
	return nil
}

// instantOf returns the instant at which the specification gets a step: that of its answer.
func (g *liveHistory) instantOf(s step, got answer) time.Duration {
	switch {
	case got.err == "expired": // at the latest now
		return time.Since(g.begun).Truncate(us) + holdSlack
	case !s.isDated() || got.err != "" || got.decision.Replayed:
		return g.now
	}
	at := got.decision.At.Sub(time.UnixMicro(g.v.epoch))
	g.now = max(g.now, at)
	return at
}

// next chooses a step.
func (g *liveHistory) next() step {
	if len(g.denied) > 0 && g.r.IntN(2) == 0 {
		return g.denied[g.r.IntN(len(g.denied))]
	}
	s := step{op: opTake, n: 1 + g.r.Int64N(3)}
	if g.got.limiter.Compiled().Dimensions != nil {
		s.key = []keyPart{{dimensionNames[0], values[g.r.IntN(3)]}}
	}
	switch x := g.r.IntN(20); {
	case g.reserves && g.r.IntN(3) == 0:
		g.reserve(&s)
	case len(g.openings) > 0 && g.r.IntN(2) == 0:
		g.useReservation(&s)
	case x < 2:
		s.op = opPeek
	case x < 5:
		s.op = opRecord
	case x < 8 && g.long && len(g.grants) > 0:
		was := g.grants[g.r.IntN(len(g.grants))]
		if s.op, s.from, s.key = opRefund, was.at, was.key; g.r.IntN(4) == 0 {
			s.from = oldest
		}
	case x < 9:
		s.op = opReset
	case x == 18:
		s.op, s.n = opBlock, 0
		s.last = time.Duration(g.r.IntN(2)*g.r.IntN(5000)) * us
	}
	return s
}

// reserve makes an attempt open a reservation, or repeats an opening.
func (g *liveHistory) reserve(s *step) {
	if len(g.openings) > 0 && g.r.IntN(4) == 0 {
		*s = g.openings[g.r.IntN(len(g.openings))].step
		return
	}
	g.ids++
	s.id, s.ttl = strconv.Itoa(g.ids), time.Hour
	if !g.long && g.r.IntN(2) == 0 {
		s.ttl = time.Duration(1+g.r.IntN(50)) * time.Millisecond
	}
}

// useReservation settles or extends a reservation, and mostly one that is open.
func (g *liveHistory) useReservation(s *step) {
	o := &g.openings[g.r.IntN(len(g.openings))]
	s.key, s.id = o.step.key, o.step.id
	switch g.r.IntN(6) {
	case 0, 1:
		s.op, s.n = opExtend, g.r.Int64N(2)*s.n
		o.extension(g.r, s)
	case 2, 3: // with room for a denied attempt
		s.op, s.n = opSettle, g.r.Int64N(o.units)
	default:
		s.op, s.n = opSettle, o.settlement(g.r, s.n)
	}
}

// observe remembers denied attempts for repetition, grants for refunds, and reservations.
func (g *liveHistory) observe(s step) {
	d := s.want.decision
	if s.usesReservation() && s.want.reservation.Units > 0 {
		g.learn(s)
	}
	switch {
	case !s.decides() || s.op == opPeek || s.want.err != "" || d.Replayed:
	case d.Granted > 0:
		g.grants = lastFew(append(g.grants, s), 4)
	default:
		g.denied = lastFew(append(g.denied, step{op: opTake, n: s.n, key: s.key}), 2)
	}
}

// learn keeps the numbers of an answer about a reservation.
func (g *liveHistory) learn(s step) {
	i := slices.IndexFunc(g.openings, func(o opening) bool { return o.step.id == s.id })
	switch {
	case i >= 0:
		g.openings[i].booking.learn(s, s.want)
	case s.op == opTake:
		o := opening{step: s}
		o.booking.learn(s, s.want)
		g.openings = lastFew(append(g.openings, o), 4)
	}
}
