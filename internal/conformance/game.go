package conformance

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
)

// game is one random history: it chooses each step by what the answers so far
// announced, since that is where engines err.
type game struct {
	r         *rand.Rand
	fixed     bool          // limits do not change
	refundIDs bool          // refunds may have an id
	minWindow time.Duration // of changed limits

	v     *vector // the steps so far
	book  *book   // the policy as it stands
	keys  [][]keyPart
	rules *contract

	now    time.Duration   // of the last step that is no look
	wrote  int             // the key of that step if it changed a history, else -1
	newest time.Duration   // the furthest instant at which anything was recorded
	edges  []time.Duration // announced instants
	grants []grant         // that could be refunded
	done   []step          // operations with an id
	ids    int             // how many ids there were
	room   []int64         // what each key was last said to have left
}

// grant is where units may be given back.
type grant struct {
	at  time.Duration
	key int
	n   int64
}

func newGame(r *rand.Rand, c Config, epoch int64) *game {
	b := randomBook(r, c.MinWindow)
	g := &game{
		r: r, fixed: c.FixedLimits, refundIDs: c.refundIDs, minWindow: c.MinWindow, wrote: -1,
		v:     &vector{name: "a random history", epoch: epoch, books: []*book{b}},
		book:  b.clone(),
		keys:  randomKeys(r),
		rules: newContract(),
	}
	g.room = make([]int64, len(g.keys))
	return g
}

// next chooses a step. It is in contract: an engine has to answer it by the rules.
func (g *game) next() step {
	if !g.fixed && g.r.IntN(25) == 0 {
		return step{op: opChange, words: randomChange(g.r, g.book, g.minWindow)}
	}
	who := g.r.IntN(len(g.keys))
	s := step{op: g.operation(), at: g.instant(), states: g.r.IntN(3) == 0}
	if g.wrote >= 0 && g.r.IntN(5) == 0 {
		who, s.at = g.wrote, max(g.now-g.jolt(), g.rules.floor())
	}
	if s.looks() && g.r.IntN(6) == 0 {
		s.at += g.far()
	}
	switch s.op {
	case opTake, opPeek:
		s.n = g.units(who)
	case opRecord:
		s.n = g.weight()
	case opRefund:
		who = g.refund(&s, who)
	case opCount:
		g.count(&s)
	}
	if s.op == opTake || s.op == opRecord || s.op == opRefund && g.refundIDs {
		who = g.name(&s, who)
	}
	s.key = g.keyOf(who)
	if !s.decides() {
		s.states = false
	}
	if g.rules.stale(g.book.policy("").Limits, s) {
		return step{op: opReset, at: s.at, key: s.key}
	}
	return s
}

// name gives some attempts, records and refunds an id: a new one, or that of a step made
// before, mostly of the same units and the same key. It returns the place of the key.
func (g *game) name(s *step, who int) int {
	switch x := g.r.IntN(100); {
	case x < 12:
		g.ids++
		s.id = values[g.ids%len(values)] + strconv.Itoa(g.ids)
	case x < 28 && len(g.done) > 0:
		was := g.done[g.r.IntN(len(g.done))]
		s.id = was.id
		if g.r.IntN(8) > 0 {
			s.op, s.n, s.from = was.op, was.n, was.from
		}
		if g.r.IntN(8) > 0 {
			return g.place(was)
		}
	}
	return who
}

// keyOf is the part of a key that the policy counts by as it stands.
func (g *game) keyOf(who int) []keyPart {
	var key []keyPart
	for _, part := range g.keys[who] {
		if slices.ContainsFunc(g.book.policy("").Limits, func(l weir.Limit) bool { return slices.Contains(l.By, part.dim) }) {
			key = append(key, part)
		}
	}
	return key
}

func (g *game) operation() string {
	switch x := g.r.IntN(100); {
	case x < 68:
		return opTake
	case x < 78:
		return opPeek
	case x < 83:
		return opRecord
	case x < 91:
		return opRefund
	case x < 99:
		return opCount
	}
	return opReset
}

// instant chooses when: mostly an announced edge, a microsecond to either side of
// it, or the present; sometimes behind.
func (g *game) instant() time.Duration {
	at := g.now
	window := g.book.limits[0].Window
	switch x := g.r.IntN(100); {
	case x < 50 && len(g.edges) > 0:
		at = g.edge() + time.Duration(g.r.IntN(3)-1)*us
	case x < 62:
	case x < 66:
		at += us
	case x < 82:
		at += time.Duration(g.r.Int64N(int64(window) / int64(1+g.r.IntN(20)))).Truncate(us)
	case x < 90:
		at -= g.back()
	case x < 98:
		at += time.Duration(g.r.Int64N(2 * int64(window))).Truncate(us)
	default:
		at = max(at, g.newest) + 3*window
	}
	return max(at, g.rules.floor())
}

// edge picks an announced instant, mostly one that is not over.
func (g *game) edge() time.Duration {
	e := g.edges[g.r.IntN(len(g.edges))]
	for range 3 {
		if e >= g.now {
			break
		}
		e = g.edges[g.r.IntN(len(g.edges))]
	}
	return e
}

// back is how far the clock steps back: around the second of R2, or further.
func (g *game) back() time.Duration {
	switch g.r.IntN(4) {
	case 0:
		return time.Duration(g.r.IntN(1_000_000)) * us
	case 1:
		return g.now - g.newest + time.Second + time.Duration(g.r.IntN(3)-1)*us
	case 2:
		return time.Duration(g.r.IntN(10_000_000)) * us
	}
	return time.Duration(g.r.Int64N(int64(maxBack))).Truncate(us)
}

// jolt is a step back right after a write to the same key, mostly of less than a second:
// a few microseconds, less than a window, or just about the second of R2.
func (g *game) jolt() time.Duration {
	switch g.r.IntN(4) {
	case 0:
		return time.Duration(1+g.r.IntN(3)) * us
	case 1:
		return time.Second + time.Duration(g.r.IntN(3)-1)*us
	case 2:
		return time.Duration(g.r.IntN(1_000_000)) * us
	}
	return min(time.Duration(g.r.Int64N(int64(g.book.limits[0].Window))).Truncate(us), time.Second)
}

// far is how far ahead a peek or a count looks: hours or years, since it forgets nothing.
func (g *game) far() time.Duration {
	return time.Duration(g.r.Int64N(int64(time.Hour) << g.r.IntN(16))).Truncate(us)
}

// units chooses how many to attempt: one, what is left, or one more.
func (g *game) units(who int) int64 {
	room := max(0, g.room[who])
	max0 := g.book.limits[g.r.IntN(len(g.book.limits))].Max
	n := int64(1)
	switch x := g.r.IntN(100); {
	case max0 > 100 && x < 25:
		n = nearPower(g.r)
	case x < 40:
	case x < 44:
		n = 0
	case x < 60:
		n = room
	case x < 70:
		n = room + 1
	case x < 86:
		n = 1 + g.r.Int64N(min(max0, weir.MaxUnits-1)+1)
	case x < 92:
		n = max0
	case x < 96:
		n = max0 + 1
	case x < 98:
		n = room / 2
	default:
		n = weir.MaxUnits
	}
	return min(n, weir.MaxUnits)
}

// weight chooses how many units to record.
func (g *game) weight() int64 {
	switch {
	case g.book.huge() && g.r.IntN(3) == 0:
		return weir.MaxUnits - g.r.Int64N(1<<uint(g.r.IntN(53)))
	case g.r.IntN(10) == 0:
		return g.r.Int64N(maxPlain)
	case g.r.IntN(10) == 0:
		return nearPower(g.r)
	}
	return g.r.Int64N(5)
}

// refund aims at an entry, or just beside one, and returns whose.
func (g *game) refund(s *step, who int) int {
	s.n, s.from = 1+g.r.Int64N(4), g.now
	if len(g.grants) == 0 {
		return who
	}
	was := g.grants[g.r.IntN(len(g.grants))]
	s.from = was.at
	switch g.r.IntN(6) {
	case 0:
		s.from += time.Duration(g.r.IntN(3)-1) * us
	case 1:
		return who
	case 2:
		s.n = was.n
	case 3:
		s.n = weir.MaxUnits
	}
	return was.key
}

// count asks for a while that begins at an edge or is as long or as short as may be.
func (g *game) count(s *step) {
	limit := g.book.policy("").Limits[g.r.IntN(len(g.book.order))]
	s.limit, s.last = limit.Name, limit.Window
	switch g.r.IntN(4) {
	case 0:
		s.last = us
	case 1:
		s.last = us * time.Duration(1+g.r.Int64N(int64(limit.Window/us)))
	case 2:
		if len(g.grants) > 0 {
			s.last = s.at - g.grants[g.r.IntN(len(g.grants))].at + time.Duration(g.r.IntN(3)-1)*us
		}
	}
	s.last = min(max(s.last, us), limit.Window)
}
