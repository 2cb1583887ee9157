package conformance

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// booking is a reservation as a random history knows it from the answers.
type booking struct {
	id      string
	key     int
	units   int64 // of all grants
	actual  int64 // of the settlement
	settled bool

	extended int64 // units of the newest extension with units; 0 = none
	had      int64 // units before it
}

// ttl chooses the life of a reservation: about a window or a minute, for which reservations are
// remembered at least, or a few microseconds. It is 0 near the end of time.
func (g *randomHistory) ttl() time.Duration {
	if g.late {
		return 0
	}
	window := g.policy.limits[g.r.IntN(len(g.policy.limits))].Window
	d := window
	switch g.r.IntN(8) {
	case 0:
		d = time.Duration(1+g.r.IntN(3)) * us
	case 1:
		d = time.Minute + time.Duration(g.r.IntN(3)-1)*us
	case 2, 3:
		d += time.Duration(g.r.IntN(3)-1) * us
	case 4, 5:
		d = time.Duration(g.r.Int64N(2 * int64(window)))
	}
	return min(max(d.Truncate(us), us), weir.MaxWindow)
}

// maxWait chooses how long an attempt may wait: mostly for some windows, or just as long as an
// answer has announced, or for ever. Under the other policies it is bad input (R18).
func (g *randomHistory) maxWait() time.Duration {
	if !g.policy.waits() && g.r.IntN(10) > 0 {
		return 0
	}
	window := g.policy.limits[g.r.IntN(len(g.policy.limits))].Window
	switch g.r.IntN(10) {
	case 0:
		return weir.Never
	case 1:
		return us
	case 2, 3:
		if len(g.edges) > 0 {
			return max(0, g.edge()-g.now+time.Duration(g.r.IntN(3)-1)*us)
		}
	case 4:
		return min(window, weir.MaxWindow)
	}
	return time.Duration(g.r.Int64N(4 * int64(min(window, weir.MaxWindow/4)))).Truncate(us)
}

// waits reports whether attempts under the policy may wait (R18).
func (b *mutablePolicy) waits() bool { return b.mode != weir.CountDenied && !b.holds() }

// holds reports whether a limit in use counts holds.
func (b *mutablePolicy) holds() bool {
	return slices.ContainsFunc(b.current(), func(l weir.Limit) bool { return l.Kind == weir.KindConcurrency })
}

// block chooses the time of a block, and its limits: about the length of a block or a window, or
// 0, which ends blocks.
func (g *randomHistory) block(s *step) {
	limit := g.policy.limits[g.r.IntN(len(g.policy.limits))]
	s.n, s.names = 0, g.namedLimits()
	switch g.r.IntN(6) {
	case 0, 1:
		s.last = 0
	case 2:
		s.last = us
	case 3:
		s.last = limit.Block + time.Duration(g.r.IntN(2))*us
	default:
		s.last = randomBlock(g.r, limit.Window)
	}
}

// useReservation chooses a reservation to settle or to extend, and returns the index of the key.
// A few ids are unknown, those of other operations, or belong to another key.
func (g *randomHistory) useReservation(s *step, who int) int {
	if s.op == opExtend {
		s.n = g.r.Int64N(2) * (1 + g.r.Int64N(4))
		if g.r.IntN(6) == 0 {
			s.n = g.units(who)
		}
	} else {
		s.n = g.weight()
	}
	switch x := g.r.IntN(20); {
	case x == 0 || len(g.booked) == 0 && len(g.done) == 0:
		s.id = "unknown"
		return who
	case x == 1 && len(g.done) > 0 || len(g.booked) == 0:
		was := g.done[g.r.IntN(len(g.done))]
		s.id = was.id
		return g.place(was)
	}
	b := &g.booked[g.r.IntN(len(g.booked))]
	if s.id = b.id; s.op == opSettle {
		s.n = b.settlement(g.r, s.n)
	} else {
		b.extension(g.r, s)
	}
	if g.r.IntN(30) == 0 {
		return who
	}
	return b.key
}

// settlement chooses the units of a settlement: below, at or above those of the grant. Of a
// settled reservation it is mostly the same number again.
func (b *booking) settlement(r *rand.Rand, more int64) int64 {
	if b.settled && r.IntN(3) > 0 {
		return b.actual
	}
	n := b.units
	switch r.IntN(12) {
	case 0, 1, 2:
		return engine.AllUnits
	case 3:
		n = 0
	case 4, 5:
		n = r.Int64N(b.units + 1)
	case 6:
		n--
	case 7, 8, 9:
		n += more
	case 10:
		n++
	}
	return min(n, weir.MaxUnits)
}

// extension chooses the number of units that an extension finds. Some repeat the newest one.
func (b *booking) extension(r *rand.Rand, s *step) {
	switch x := r.IntN(16); {
	case s.n == 0:
	case x < 5:
		s.had = strconv.FormatInt(b.units, 10)
	case x < 8 && b.extended > 0:
		s.n, s.had = b.extended, strconv.FormatInt(b.had, 10)
	case x == 8:
		s.had = strconv.FormatInt(max(0, b.units+r.Int64N(3)-1), 10)
	}
}

// book remembers the reservation of an answer, and announces its ends.
func (g *randomHistory) book(s step, a answer) {
	now := a.reservation
	if now.Units == 0 {
		return
	}
	who := g.place(s)
	var b *booking
	for i := range g.booked {
		if g.booked[i].id == s.id && g.booked[i].key == who {
			b = &g.booked[i]
		}
	}
	if b == nil {
		g.booked = lastFew(append(g.booked, booking{id: s.id, key: who}), 6)
		b = &g.booked[len(g.booked)-1]
	}
	b.learn(s, a)
	at := g.at(a.decision)
	g.announce(g.since(now.ExpiresAt), at+time.Minute)
	if now.HeldUntil > 0 {
		g.announce(g.since(now.HeldUntil))
	}
}

// learn keeps the numbers of an answer about the reservation.
func (b *booking) learn(s step, a answer) {
	now := a.reservation
	if s.op == opExtend && s.n > 0 && a.decision.Allowed && !a.decision.Replayed {
		b.extended, b.had = s.n, now.Units-s.n
	}
	b.units, b.settled, b.actual = now.Units, now.Settled, now.Actual
}

// since returns an instant in microseconds relative to the epoch.
func (g *randomHistory) since(at int64) time.Duration { return duration(at - g.v.epoch) }
