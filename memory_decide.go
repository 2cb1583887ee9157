package weir

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"time"

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
	dead   int   // older words that no longer count
	room   int64 // units that fitted
	closed bool  // the gap was closed

	wait int64 // this limit's own wait after the decision
}

// Decide answers an attempt, a peek or a record.
func (m *Memory) Decide(_ context.Context, p *Plan, k Key, a Ask) (d Decision, err error) {
	err = m.decide(p, &k, &a, &d)
	return d, err
}

// decide is Decide by reference: an answer of a hundred bytes that is copied
// from function to function takes as long as deciding it.
func (m *Memory) decide(p *Plan, k *Key, a *Ask, d *Decision) error {
	b := m.binding(p)
	if b.simple && a.Op == OpAttempt && a.States == nil && m.one(b, k, a.N, a.At, d) {
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
func (m *Memory) persist(b *memoryBinding, p *Plan, k *Key, a *Ask, sites []site, d *Decision) error {
	err := m.try(b, p, k, a, sites, d)
	for tries := 0; err == errNoRoom; tries++ {
		now := a.At
		if now == Now {
			now = m.now()
		}
		if tries == mostTries || !m.makeRoom(sites, now, a.At != Now) {
			return m.full()
		}
		err = m.try(b, p, k, a, sites, d)
	}
	return err
}

// mostTries bounds what one caller does for room.
const mostTries = 16

// errNoRoom says that a cap was met; it does not leave the engine.
var errNoRoom = errors.New("no room")

// try decides under the locks of all shards concerned: it reads
// everything, then decides, then writes all or nothing (R7).
func (m *Memory) try(b *memoryBinding, p *Plan, k *Key, a *Ask, sites []site, d *Decision) error {
	raw := a.At
	if raw == Now {
		raw = m.now() // once, before the locks: whoever waits for one is ordered by R2
	}
	locks := m.locate(b.limits, k, sites)
	m.lock(locks)
	for i := range sites {
		sites[i].load(k)
	}
	now := m.instant(sites, a.At, raw)
	room, open := int64(window.Forever), true
	for i := range sites {
		s := &sites[i]
		s.state.Used, s.dead = s.h.Used(s.arena, now-s.limit.Window)
		s.state.Last = s.h.Last
		s.room = s.state.Room(&s.limit.Rule)
		s.closed = s.state.GapWait(&s.limit.Rule, now) > 0
		room = min(room, s.room)
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
	if units > 0 {
		if err := m.record(b, k, a, sites, now, units); err != nil {
			m.unlock(locks)
			return err
		}
	} else if a.Op == OpAttempt && a.N > 0 {
		for i := range sites {
			sites[i].correct(now)
		}
	}
	d.Granted, d.Allowed = granted, full || granted > 0
	answer(b, p, a, sites, now, full, d)
	for i := range sites {
		sites[i].shard.tend(m, now, a.At != Now)
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
			hashed, value = sole, maphash.String(m.seed, k.Value(sole))
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
	s.arena = &s.shard.arena
	s.ref = s.shard.find(s.tag, s.limit, k)
	if s.ref == 0 {
		s.h = &noHistory
		return
	}
	s.h = &s.shard.records.At(s.ref).History
}

// instant returns the instant of the decision: the clock, or the newest entry of
// a history the clock is less than a second behind. Behind a history by more, the
// clock was corrected, and entries of the future are taken as entries of now: on a
// copy, until it is certain that something may be written (R2, R4).
func (m *Memory) instant(sites []site, at, raw int64) int64 {
	now, corrected := raw, false
	for i := range sites {
		if last := sites[i].h.Last; last > now {
			if at == Now && sites[i].h.Behind(raw) {
				// The clock is monotonic: it was read long ago, before a wait for the lock.
				raw = m.now()
				now = max(now, raw)
			}
			if sites[i].h.Behind(raw) {
				corrected = true
			} else {
				now = max(now, last)
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

// correct writes the correction that the site has so far on a copy, if any.
func (s *site) correct(now int64) {
	if !s.corrected {
		return
	}
	s.arena = &s.shard.arena
	s.h = &s.shard.records.At(s.ref).History
	s.h.Redate(s.arena, s.limit.End(now), now)
	s.state.Used, s.dead = s.h.Used(s.arena, now-s.limit.Window)
	s.shard.wake(0) // it expires sooner than it did
}

// record adds units to every history, or to none: whatever can fail is tried
// before the first write.
func (m *Memory) record(b *memoryBinding, k *Key, a *Ask, sites []site, now, units int64) error {
	created := 0
	for i := range sites {
		s := &sites[i]
		if a.Op == OpRecord && s.state.Used > MaxUnits-units {
			return fmt.Errorf("%w: limit %q holds %d units that count; %d more would pass %d",
				ErrOverflow, s.limit.name, s.state.Used, units, MaxUnits)
		}
		if s.ref == 0 {
			created++
		}
	}
	if !m.makeReserve(sites, k, now, created) {
		return errNoRoom
	}
	for i := range sites {
		s := &sites[i]
		isNew := s.ref == 0
		if isNew {
			s.ref = s.shard.insert(s.tag, s.limit, k)
		}
		r := s.shard.records.At(s.ref)
		s.h = &r.History
		s.correct(now)
		s.h.Prune(s.arena, now-s.limit.Window, s.state.Used, s.dead)
		s.h.Add(s.arena, s.limit.End(now), now, units)
		if b.mode == window.CountDenied {
			s.h.Cap(s.arena, s.limit.Max)
		}
		s.state = window.State{Used: s.h.Total, Last: now}
		if isNew || r.virtual {
			r.virtual = a.At != Now
			s.shard.grown(r.expiry(*m.retain.Load()))
		}
		r.virtual = a.At != Now
	}
	return nil
}

// makeReserve makes sure that every history can grow by an entry and that
// records can be created where there are none, within the caps.
func (m *Memory) makeReserve(sites []site, k *Key, now int64, created int) bool {
	if created > 0 && m.maxKeys > 0 && m.keys.Add(int64(created)) > m.maxKeys {
		m.keys.Add(-int64(created))
		return false
	}
	for i := range sites {
		records, chunks := sites[i].needs(k, now)
		if records+chunks == 0 {
			continue
		}
		for j := range sites[:i] { // several limits of a decision may share a shard
			if sites[j].shard == sites[i].shard {
				r, c := sites[j].needs(k, now)
				records, chunks = records+r, chunks+c
			}
		}
		if !sites[i].shard.reserve(m, records, chunks) {
			if m.maxKeys > 0 {
				m.keys.Add(-int64(created))
			}
			return false
		}
	}
	return true
}

// needs returns how many records and chunks recording at the site takes.
func (s *site) needs(k *Key, now int64) (records, chunks int) {
	if s.corrected {
		return 0, 1 // at most: a copy's log may be cut differently
	}
	if s.ref != 0 {
		return 0, s.h.Chunks(s.limit.End(now))
	}
	return 1, keyChunks(keySize(s.limit.by, k))
}

// answer completes the decision from the histories as they are now (R8).
func answer(b *memoryBinding, p *Plan, a *Ask, sites []site, now int64, full bool, d *Decision) {
	var wait, reset int64
	remaining := int64(window.Forever)
	for i := range sites {
		s := &sites[i]
		r := &s.limit.Rule
		s.wait = s.h.Wait(s.arena, r, &s.state, now, a.N)
		if window.Longer(s.wait, wait) {
			wait = s.wait
		}
		reset = max(reset, s.h.Reset(r, &s.state, now))
		remaining = min(remaining, s.state.Room(r))
	}
	d.Remaining, d.RetryAfter, d.ResetAfter = remaining, span(wait), span(reset)
	d.At = time.UnixMicro(now)
	if !full {
		d.Limit = bound(b.mode, sites, a.N, d.Granted).limit.name
	}
	if a.States != nil {
		describe(p, sites, a.States, now)
	}
}

// bound returns the limit that kept an attempt of n units from being granted in
// full: of those that cut a partial grant the one with the least room, of those
// that refused the one with the longest wait; the first of equals.
func bound(mode window.Mode, sites []site, n, granted int64) *site {
	var b *site
	for i := range sites {
		s := &sites[i]
		switch {
		case granted > 0:
			if b == nil || s.room < b.room {
				b = s
			}
		case s.closed || s.room < n && (mode != window.Partial || s.room <= 0):
			if b == nil || window.Longer(s.wait, b.wait) {
				b = s
			}
		}
	}
	return b
}

// describe fills in the state of every limit.
func describe(p *Plan, sites []site, states []LimitState, now int64) {
	for i := range sites {
		s, l := &sites[i], &p.policy.Limits[i]
		states[i] = LimitState{
			Name:       l.Name,
			Max:        l.Max,
			Window:     l.Window,
			Gap:        l.Gap,
			Used:       s.state.Used,
			Remaining:  s.state.Room(&s.limit.Rule),
			RetryAfter: span(s.wait),
			NextAfter:  span(s.h.Next(s.arena, &s.limit.Rule, &s.state, now)),
			GapAfter:   span(s.state.GapWait(&s.limit.Rule, now)),
			ResetAfter: span(s.h.Reset(&s.limit.Rule, &s.state, now)),
		}
	}
}

// span converts microseconds, or window.Never, to a duration.
func span(us int64) time.Duration {
	if us == window.Never {
		return Never
	}
	return time.Duration(us) * time.Microsecond
}
