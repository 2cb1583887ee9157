package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Capped applies random histories to engines that have room for little. A call without room is
// ErrFull and changes nothing (R13): the specification does not get it, and all later answers are
// compared. full has the numbers of such calls by their operation. report is that of the first
// difference, or "".
func Capped(newEngine func(history int) engine.Engine, c Config) (full map[string]int, report string) {
	full = map[string]int{}
	for i := range c.Hammers {
		g := newRandomHistory(rand.New(rand.NewPCG(c.Seed, 4<<32+uint64(i))), c, defaultEpoch)
		g.v.write()
		want, got := validSession(c.spec(), g.v), validSession(newEngine(i), g.v)
		for range 100 {
			s := g.next()
			s.at = max(s.at, g.newest-time.Second+us) // a denial stores a correction if there is room (R2)
			if !s.callsEngine() {
				mustBeValid(want.apply(s))
				mustBeValid(got.apply(s))
				g.observe(s, answer{})
				continue
			}
			b := got.do(s)
			a := b
			if b.err == "full" {
				full[s.op]++
				g.contract.high = max(g.contract.high, s.at) // it may have swept at its instant (R13)
			} else {
				a = want.do(s)
			}
			g.observe(s, a)
			neverFull := []string{opPeek, opCount, opReset}
			if b.err == "full" && slices.Contains(neverFull, s.op) || !a.equal(b) {
				const format = "seed %d, history %d of an engine with a cap, in its last step: the %s differs\n%s\ngot %s %+v\n  %s"
				return full, fmt.Sprintf(format, c.Seed, i, a.difference(b), g.v.text(), b.text(s, g.v.epoch), b.states, quoteRule(13))
			}
		}
	}
	return full, ""
}
