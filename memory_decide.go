package weir

import (
	"context"
	"hash/maphash"
	"math/bits"

	"github.com/weirlimit/weir/internal/window"
)

// site is one limit of a decision: where its history is, and what it says.
type site struct {
	limit *memoryLimit
	shard *shard
	tag   uint32
	ref   uint32          // the record, 0 = none yet
	h     *window.History // the history decided on
	arena *window.Arena   // where its log stands
	state window.State

	// corrected says that h is a copy on which the clock's correction was made (R2).
	corrected bool

	// As the attempt found it:
	from   window.Mark // where the entries that count begin
	room   int64       // units that fitted
	closed bool        // the gap was closed

	wait int64 // this limit's own wait after the decision
}

// Decide answers an attempt, a peek or a record.
func (m *Memory) Decide(_ context.Context, p *Plan, k Key, a Request) (d Decision, err error) {
	if err := a.check(p); err != nil {
		return d, err
	}
	err = m.decide(p, &k, &a, &d)
	return d, err
}

// decide is Decide by reference: an answer of a hundred bytes that is copied
// from function to function takes as long as deciding it.
func (m *Memory) decide(p *Plan, k *Key, a *Request, d *Decision) error {
	if a.names() {
		return m.decideOnce(p, k, a, d)
	}
	b := m.binding(p)
	if b.simple && a.Op == OpAttempt && a.States == nil && !a.full && m.one(b, k, a.N, a.At, d) {
		return nil
	}
	// The sites stand on the stack, as many as the plan needs: clearing room for
	// MaxLimits would cost as much as a decision.
	switch n := len(b.limits); {
	case n == 1:
		var sites [1]site
		return m.persist(b, p, k, a, sites[:], d)
	case n == 2:
		var sites [2]site
		return m.persist(b, p, k, a, sites[:], d)
	case n <= 4:
		var sites [4]site
		return m.persist(b, p, k, a, sites[:n], d)
	default:
		var sites [MaxLimits]site
		return m.persist(b, p, k, a, sites[:n], d)
	}
}

// persist decides with room for the sites given. When the engine is full it makes
// room and tries again, for as long as it finds keys to forget: bytes come back
// by whole pages, so the first ones found may not be enough.
func (m *Memory) persist(b *memoryBinding, p *Plan, k *Key, a *Request, sites []site, d *Decision) error {
	err := m.try(b, p, k, a, sites, d)
	for tries := 0; !a.full && (err == m.fullOfKeys || err == m.fullOfBytes); tries++ {
		now := a.At
		if now == Now {
			now = m.now()
		}
		if tries == mostTries || !m.makeRoom(sites, now, a.At != Now) {
			m.refused.Add(1)
			return err
		}
		err = m.try(b, p, k, a, sites, d)
	}
	return err
}

// mostTries bounds what one caller does for room.
const mostTries = 16

// try decides under the locks of all shards concerned: it reads
// everything, then decides, then writes all or nothing (R7).
func (m *Memory) try(b *memoryBinding, p *Plan, k *Key, a *Request, sites []site, d *Decision) error {
	locks := m.locate(b.limits, k, sites)
	m.lock(locks)
	for i := range sites {
		sites[i].load(k)
	}
	raw := m.read(a.At)
	now := clamp(sites, raw)
	room, open := int64(window.Forever), true
	for i := range sites {
		s := &sites[i]
		s.state.Used, s.from = s.h.Used(s.arena, now-s.limit.Window)
		s.state.Last = s.h.Last
		s.room = s.state.Room(&s.limit.Rule)
		s.closed = s.state.IntervalWait(&s.limit.Rule, now) > 0
		room = min(room, s.limit.fitting(s.room, a.N))
		open = open && !s.closed
	}
	granted, full := window.Grant(b.mode, a.N, room, open)
	units := granted
	switch {
	case a.Op == OpPeek || a.N == 0:
		units = 0
	case a.Op == OpRecord:
		granted, full, units = a.N, true, a.N
	case b.mode == window.CountDenied:
		units = a.N
	}
	virtual := a.At != Now
	if units > 0 {
		if err := m.record(b, k, a, sites, now, units); err != nil {
			m.unlock(locks)
			return err
		}
	} else if a.Op == OpAttempt && a.N > 0 {
		if err := m.correct(sites, now, virtual); err != nil {
			m.unlock(locks)
			return err
		}
	}
	d.Granted, d.Allowed = granted, full || granted > 0
	answer(b, p, a, sites, now, full, d)
	if units > 0 { // peeks and refusals forget nothing (R4)
		for i := range sites {
			sites[i].shard.tend(m, raw, virtual)
		}
	}
	m.unlock(locks)
	return nil
}

// locate finds the shard of every site and returns them as the bits of a word.
func (m *Memory) locate(limits []memoryLimit, k *Key, sites []site) (locks uint64) {
	hashed, value := -1, uint64(0) // limits of a policy often count by the same value
	for i := range sites {
		s := &sites[i]
		s.limit = &limits[i]
		var h uint64
		switch sole := s.limit.sole; {
		case sole < 0:
			h = m.hash(s.limit, k)
		case sole != hashed:
			hashed, value = sole, maphash.String(m.seed, k.value(sole))
			fallthrough
		default:
			h = s.limit.mix(value)
		}
		shard := h >> shardShift
		s.shard, s.tag = &m.shards[shard], uint32(h)
		locks |= 1 << shard
	}
	return locks
}

// lock locks shards in ascending order, each once, so that no two decisions wait
// for each other.
func (m *Memory) lock(locks uint64) {
	for ; locks != 0; locks &= locks - 1 {
		m.shards[bits.TrailingZeros64(locks)].mu.Lock()
	}
}

func (m *Memory) unlock(locks uint64) {
	for ; locks != 0; locks &= locks - 1 {
		m.shards[bits.TrailingZeros64(locks)].mu.Unlock()
	}
}

// noHistory stands for the history of a key without a record. It is never
// written: recording begins with a record. A copy in the site instead would make
// every decision allocate its sites, since they would point into themselves.
var noHistory = window.Empty

// load finds the site's history; the shard is locked.
func (s *site) load(k *Key) {
	s.arena, s.corrected = &s.shard.arena, false
	s.ref = s.shard.find(s.tag, s.limit, k)
	if s.ref == 0 {
		s.h = &noHistory
		return
	}
	s.h = &s.shard.records.At(s.ref).History
}

// read returns the instant a call is made at: the caller's, or the engine's clock.
// The clock is read while the locks are held: so whoever decides, refunds or sweeps
// in a shard has not read it later than whoever does so next, and nobody decides at
// an instant at which somebody before him has already forgotten what still counted
// (R1, R3).
func (m *Memory) read(at int64) int64 {
	if at == Now {
		return m.now()
	}
	return at
}

// clamp returns the instant of the decision: what was read, or the newest entry
// of a history that is less than a second ahead of it. Behind a history by more, the
// clock was corrected, and entries of the future are taken as entries of now: on a
// copy, until it is certain that something may be written (R2, R4).
func clamp(sites []site, raw int64) int64 {
	now, corrected := raw, false
	for i := range sites {
		if last := sites[i].h.Last; last > now {
			if sites[i].h.Behind(raw) {
				corrected = true
			} else {
				now = last
			}
		}
	}
	if corrected {
		for i := range sites {
			s := &sites[i]
			if s.h.Last > now {
				s.h, s.arena = s.h.Clone(s.arena)
				s.h.Redate(s.arena, s.limit.End(now), now)
				s.corrected = true
			}
		}
	}
	return now
}
