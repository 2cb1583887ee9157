package conformance

import (
	"fmt"
	"math/rand/v2"
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

	fromStore []fromStore
}

// maxLive bounds the time of a live history.
const maxLive = 5 * time.Second

func newLiveHistory(r *rand.Rand, e engine.Engine, c *Config) *liveHistory {
	g := &liveHistory{r: r, begun: time.Now(), cacheTTL: c.CacheTTL, separate: c.Separate, long: r.IntN(2) == 0}
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
		if s.decides() && got.err == "" {
			s.at = got.decision.At.Sub(time.UnixMicro(g.v.epoch))
			g.now = max(g.now, s.at)
		} else {
			s.at = g.now
		}
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
	}
	return s
}

// observe remembers denied attempts for repetition and grants for refunds.
func (g *liveHistory) observe(s step) {
	d := s.want.decision
	switch {
	case !s.decides() || s.op == opPeek || s.want.err != "":
	case d.Granted > 0:
		g.grants = lastFew(append(g.grants, s), 4)
	default:
		g.denied = lastFew(append(g.denied, step{op: opTake, n: s.n, key: s.key}), 2)
	}
}
