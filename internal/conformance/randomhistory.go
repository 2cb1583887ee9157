package conformance

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
)

// randomHistory chooses each step of a history by the answers so far, because engines err
// at the instants that answers announce.
type randomHistory struct {
	r      *rand.Rand
	config *Config

	v        *vector        // the steps so far
	policy   *mutablePolicy // with its present numbers
	keys     [][]keyPart
	contract *contract

	now     time.Duration   // instant of the last step that is neither a peek nor a count
	wrote   int             // the key of that step if it changed a history, else -1
	newest  time.Duration   // the furthest instant of a recording
	edges   []time.Duration // instants that answers announced
	grants  []grant         // candidates for refunds
	done    []step          // operations with an id
	ids     int             // number of ids used
	room    []int64         // the last reported room of each key
	buckets bool            // a limit is or was a bucket
	changed bool            // a limit has changed
	undo    []string        // words of a change that undoes that of a kind, or nil

	reserves bool // many steps use reservations
	blocks   bool // many steps block keys
	waits    bool // many attempts may wait
	late     bool // the history is near the end of time, beyond which a reservation could not live
	booked   []booking
}

// grant is a candidate for a refund.
type grant struct {
	at  time.Duration
	key int
	n   int64
}

func newRandomHistory(r *rand.Rand, c Config, epoch int64) *randomHistory {
	reserves := r.IntN(3) == 0
	b := randomPolicy(r, &c)
	for range 10 * r.IntN(2) { // half of the reservations have a hold, if the engine claims any
		if !reserves || b.holds() {
			break
		}
		b = randomPolicy(r, &c)
	}
	g := &randomHistory{
		r: r, config: &c, wrote: -1, buckets: b.buckets(),
		v:        &vector{name: "a random history", epoch: epoch, policies: []*mutablePolicy{b}},
		policy:   b.clone(),
		keys:     randomKeys(r),
		contract: newContract(epoch),
	}
	g.room = make([]int64, len(g.keys))
	g.reserves, g.blocks = reserves, r.IntN(8) == 0
	g.waits = r.IntN(4) == 0
	return g
}

// next chooses a step in contract.
func (g *randomHistory) next() step {
	if !g.config.FixedLimits && g.r.IntN(25) == 0 {
		return step{op: opChange, words: randomChange(g.r, g.policy, g.config)}
	}
	if words := g.undo; words != nil && g.r.IntN(8) == 0 {
		if g.undo = nil; g.policy.allows(words) {
			return step{op: opChange, words: words} // finds the histories of the former kind again
		}
	}
	who := g.r.IntN(len(g.keys))
	s := step{op: g.operation(), at: g.instant(), states: g.r.IntN(3) == 0}
	if g.wrote >= 0 && g.r.IntN(5) == 0 {
		who, s.at = g.wrote, max(g.now-g.clockStep(), g.contract.floor())
	}
	if s.readsOnly() && g.r.IntN(6) == 0 {
		s.at += g.far()
	}
	switch s.op {
	case opTake, opPeek:
		s.n = g.units(who)
		if s.op == opTake && s.n > 0 && (g.waits && g.r.IntN(2) == 0 || g.r.IntN(40) == 0) {
			s.wait = g.maxWait()
		}
	case opRecord:
		s.n = g.weight()
	case opRefund:
		who = g.refund(&s, who)
	case opCount:
		g.count(&s)
	case opReset:
		s.names = g.namedLimits()
	case opProbe:
		s.n = g.units(who)
	case opBlock:
		g.block(&s)
	case opSettle, opExtend:
		who = g.useReservation(&s, who)
	}
	if s.op == opTake || s.op == opRecord || s.op == opRefund {
		who = g.chooseID(&s, who)
	}
	s.key = g.keyOf(who)
	if s.names != nil && g.r.IntN(2) == 0 {
		s.key = g.neededFor(&s)
	}
	if !s.decides() {
		s.states = false
	}
	if g.contract.stale(g.policy.current(), s) {
		return step{op: opReset, at: s.at, key: s.key, names: g.policy.order}
	}
	return s
}

// namedLimits returns the names of some limits for a reset, or none.
func (g *randomHistory) namedLimits() (names []string) {
	for _, name := range g.policy.order {
		if g.r.IntN(2) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// chooseID gives some attempts, records and refunds an id: a new one, or that of an earlier
// step, mostly with the same units and the same key. It returns the index of the key.
func (g *randomHistory) chooseID(s *step, who int) int {
	opens := s.op == opTake && s.n > 0 && g.reserves
	switch x := g.r.IntN(100); {
	case x < 12 || opens && x < 50:
		g.ids++
		s.id = values[g.ids%len(values)] + strconv.Itoa(g.ids)
		if opens && g.r.IntN(6) > 0 {
			s.ttl = g.ttl()
		}
	case x < 28 && len(g.done) > 0 || x < 60 && opens && len(g.done) > 0:
		was := g.done[g.r.IntN(len(g.done))]
		s.id = was.id
		if g.r.IntN(8) > 0 {
			s.op, s.n, s.from, s.ttl, s.wait = was.op, was.n, was.from, was.ttl, was.wait
		}
		if opens && s.op == opTake && g.r.IntN(8) == 0 {
			s.ttl = g.ttl() * time.Duration(g.r.IntN(2))
		}
		if s.states = s.states && s.decides(); g.r.IntN(8) > 0 {
			return g.place(was)
		}
	}
	return who
}

// neededFor returns the part of the key that the named limits of a reset count by.
func (g *randomHistory) neededFor(s *step) (key []keyPart) {
	for _, part := range s.key {
		if slices.ContainsFunc(g.policy.current(), func(l weir.Limit) bool {
			return slices.Contains(s.names, l.Name) && slices.Contains(l.By, part.dim)
		}) {
			key = append(key, part)
		}
	}
	return key
}

// keyOf returns the part of a key that the present policy counts by.
func (g *randomHistory) keyOf(who int) []keyPart {
	var key []keyPart
	for _, part := range g.keys[who] {
		if slices.ContainsFunc(g.policy.current(), func(l weir.Limit) bool { return slices.Contains(l.By, part.dim) }) {
			key = append(key, part)
		}
	}
	return key
}

func (g *randomHistory) operation() string {
	switch x := g.r.IntN(100); {
	case g.reserves && x < 20:
		return opSettle
	case g.reserves && x < 32 || x == 32:
		return opExtend
	case g.blocks && x < 40 || x == 33:
		return opBlock
	case g.blocks && x < 46 || x == 34:
		return opProbe
	}
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

// instant chooses the instant of a step: mostly an announced edge, a microsecond beside it,
// or the present; sometimes an earlier instant.
func (g *randomHistory) instant() time.Duration {
	at := g.now
	window := g.policy.limits[0].Window
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
	return max(at, g.contract.floor())
}

// edge returns an announced instant, mostly one that is not over.
func (g *randomHistory) edge() time.Duration {
	e := g.edges[g.r.IntN(len(g.edges))]
	for range 3 {
		if e >= g.now {
			break
		}
		e = g.edges[g.r.IntN(len(g.edges))]
	}
	return e
}

// back returns a step back of the clock: about the second of R2, or more.
func (g *randomHistory) back() time.Duration {
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

// clockStep returns a step back right after a write to the same key: a few microseconds, less
// than a window, or just about the second of R2.
func (g *randomHistory) clockStep() time.Duration {
	switch g.r.IntN(4) {
	case 0:
		return time.Duration(1+g.r.IntN(3)) * us
	case 1:
		return time.Second + time.Duration(g.r.IntN(3)-1)*us
	case 2:
		return time.Duration(g.r.IntN(1_000_000)) * us
	}
	return min(time.Duration(g.r.Int64N(int64(g.policy.limits[0].Window))).Truncate(us), time.Second)
}

// far returns the distance of a peek or a count in the future: hours or years, because
// neither forgets anything.
func (g *randomHistory) far() time.Duration {
	return time.Duration(g.r.Int64N(int64(time.Hour) << g.r.IntN(16))).Truncate(us)
}

// units chooses the units of an attempt: one, the room, or one more than the room.
func (g *randomHistory) units(who int) int64 {
	room := max(0, g.room[who])
	limit := g.policy.limits[g.r.IntN(len(g.policy.limits))]
	max0 := cmp.Or(limit.Burst, limit.Max)
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

// weight chooses the units of a record.
func (g *randomHistory) weight() int64 {
	switch {
	case g.policy.huge() && g.r.IntN(3) == 0:
		return weir.MaxUnits - g.r.Int64N(1<<uint(g.r.IntN(51)))
	case g.r.IntN(10) == 0:
		return g.r.Int64N(maxPlain)
	case g.r.IntN(10) == 0:
		return nearPower(g.r)
	}
	return g.r.Int64N(5)
}

// refund chooses an entry, an instant just beside one, or the oldest entries, and returns
// the index of the key.
func (g *randomHistory) refund(s *step, who int) int {
	s.n, s.from = 1+g.r.Int64N(4), g.now
	if len(g.grants) == 0 {
		return who
	}
	was := g.grants[g.r.IntN(len(g.grants))]
	s.from = was.at
	switch g.r.IntN(8) {
	case 0:
		s.from += time.Duration(g.r.IntN(3)-1) * us
	case 4:
		s.from = oldest
	case 5:
		s.n, s.from = min(was.n+g.r.Int64N(1+2*was.n), weir.MaxUnits), oldest
	case 1:
		return who
	case 2:
		s.n = was.n
	case 3:
		s.n = weir.MaxUnits
	}
	return was.key
}

// count chooses a span that begins at an edge, or is as long or as short as possible.
func (g *randomHistory) count(s *step) {
	limit := g.policy.current()[g.r.IntN(len(g.policy.order))]
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
