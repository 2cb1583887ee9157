package memory

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// request is a call as the engine decides it.
type request struct {
	Op     engine.Op
	N      int64
	States []engine.State
	at     moment
	once   string // the name of the operation, if it is to be remembered
	full   bool   // there is no room to remember the operation: recording units fails
}

// Do decides calls in their order. The clock is read once for all calls that allowSimple
// can decide. The others read it under their locks; after such a call it is read anew, so
// that no instant lies before an earlier one of the key (R1).
func (m *Memory) Do(_ context.Context, calls []engine.Call) {
	if len(calls) == 1 {
		if c := &calls[0]; c.Err == nil {
			c.Fail(nil)
			m.Decide(c)
		}
		return
	}
	now := reading(m.now())
	for i := range calls {
		c := &calls[i]
		if c.Err != nil {
			continue
		}
		c.Fail(nil)
		if c.Op == engine.Attempt && c.ID == "" && !c.Given {
			if b := m.compiled(c.Rules); b.simple && m.allowSimple(b, &c.Key, c.N, now, c.States, &c.Result) {
				continue
			}
		}
		m.Decide(c)
		now = reading(m.now())
	}
}

// Decide decides one call without a result.
func (m *Memory) Decide(c *engine.Call) {
	at := momentOf(c)
	switch {
	case c.Op == engine.Count:
		c.Result.Granted = m.count(c, at)
		return
	case c.Op == engine.Reset:
		m.reset(c.Rules, &c.Key)
		return
	case c.ID != "" && c.N > 0 && c.Op != engine.Peek:
		c.Err = m.decideOnce(c, at)
	case c.Op == engine.Refund:
		var decided int64
		c.Result.Granted, decided, c.Err = m.refund(c.Rules, &c.Key, c.From, c.N, at, false, "")
		c.Result.At = time.UnixMicro(decided) // R2 may have moved it ahead of the clock
	default:
		c.Err = m.handle(c.Rules, &c.Key, &request{Op: c.Op, N: c.N, States: c.States, at: at}, &c.Result)
	}
	if c.Err != nil {
		c.Fail(c.Err)
	}
}

// Allow decides an attempt of n units by allowSimple, or reports false and changes nothing.
// It spares a caller the Call. The zero Time is now.
func (m *Memory) Allow(r *Simple, k *engine.Key, n int64, at time.Time, d *engine.Result) bool {
	when := moment{}
	if !at.IsZero() {
		when = moment{at.UnixMicro(), fromCaller}
	}
	return m.allowSimple((*planRules)(r), k, n, when, nil, d)
}

// Simple is rules for Allow.
type Simple planRules

// Simple returns the rules for Allow, or nil if it cannot decide by them.
func (m *Memory) Simple(p *engine.Compiled) *Simple {
	if b := m.compiled(p); b.simple {
		return (*Simple)(b)
	}
	return nil
}

// handle passes the request to the function that decides such requests. An answer of a
// hundred bytes that is copied from function to function takes as long as deciding it, so d
// is a reference.
func (m *Memory) handle(p *engine.Compiled, k *engine.Key, req *request, d *engine.Result) error {
	b, at := m.compiled(p), req.at
	if b.simple && req.Op == engine.Attempt && !req.full && req.once == "" && m.allowSimple(b, k, req.N, at, req.States, d) {
		return nil
	}
	// The slots stand on the stack, as many as the rules need: clearing room for
	// engine.MaxLimits would cost as much as a decision.
	switch n := len(b.limits); {
	case n == 1:
		var slots [1]slot
		return m.decideWithRoom(b, k, req, at, slots[:], d)
	case n == 2:
		var slots [2]slot
		return m.decideWithRoom(b, k, req, at, slots[:], d)
	case n <= 4:
		var slots [4]slot
		return m.decideWithRoom(b, k, req, at, slots[:n], d)
	default:
		var slots [engine.MaxLimits]slot
		return m.decideWithRoom(b, k, req, at, slots[:n], d)
	}
}

// decideWithRoom decides in the given slots. At a cap it makes room and decides again, as
// long as it finds histories to remove: bytes come back by whole pages, so the first ones
// found may not be enough.
func (m *Memory) decideWithRoom(b *planRules, k *engine.Key, req *request, at moment, slots []slot, d *engine.Result) error {
	err := m.decideSlots(b, k, req, at, slots, d)
	for tries := 0; !req.full && (err == m.fullOfKeys || err == m.fullOfBytes); tries++ {
		if tries == maxTries || !m.makeRoom(m.locate(b.limits, k, slots), at) {
			m.rejected.Add(1)
			return err
		}
		err = m.decideSlots(b, k, req, at, slots, d)
	}
	return err
}

// decideSlots decides under the locks of all shards concerned: it reads everything, then
// decides, then writes all or nothing (R7).
func (m *Memory) decideSlots(b *planRules, k *engine.Key, req *request, at moment, slots []slot, d *engine.Result) error {
	raw, now, locks := m.lockSlots(b.limits, k, slots, at)
	virtual := at.virtual()
	room, open := int64(window.Forever), true
	for i := range slots {
		s := &slots[i]
		s.look(now)
		s.state.Last = s.h.Last
		s.room = s.state.Room(s.rule)
		s.closed = s.state.IntervalWait(s.rule, now) > 0
		room = min(room, s.limit.fitting(s.room, req.N))
		open = open && !s.closed
	}
	granted, full := window.Grant(b.mode, req.N, room, open)
	units := granted // to record
	switch {
	case req.Op == engine.Peek || req.N == 0:
		units = 0
	case req.Op == engine.Record:
		granted, full, units = req.N, true, req.N
	case b.mode == window.CountDenied:
		units = req.N
	}
	var err error
	if units > 0 {
		err = m.record(b, k, req, slots, now, units, granted == 0, virtual)
	} else if req.Op == engine.Attempt && req.N > 0 {
		err = m.correctAll(slots, now, virtual) // a denial stores no more than this (R2)
	}
	if err != nil {
		m.unlock(slots, locks)
		return err
	}
	d.Granted, d.Allowed = granted, full || granted > 0
	answer(b, req, slots, now, full, d)
	if m.journal != nil {
		m.report(b, k, req, slots, now, units, virtual, d)
	}
	if units > 0 { // peeks and denials remove no history (R4)
		m.sweepShards(slots, raw, virtual)
	}
	m.unlock(slots, locks)
	return nil
}

// report sends the changes of a decision to the journal.
func (m *Memory) report(b *planRules, k *engine.Key, req *request, slots []slot, now, units int64, virtual bool, d *engine.Result) {
	r := m.newReport(now, virtual)
	switch {
	case units > 0:
		if r.recorded(k, slots, b.mode, units); req.once != "" {
			r.remembered(b.plan, req.once, req.Op, req.N, 0, d)
		}
	case req.Op == engine.Attempt && req.N > 0:
		r.corrections(k, slots)
	}
	r.send()
}

// unlock unlocks the records of the slots and the shards.
func (m *Memory) unlock(slots []slot, locks uint64) {
	unlockRecords(slots)
	m.table.Unlock(locks)
}

// unlockRecords unlocks the records of the slots.
func unlockRecords(slots []slot) {
	for i := range slots {
		if r := slots[i].record; r != nil {
			r.Unlock()
			slots[i].record = nil
		}
	}
}

// sweepShards unlocks the records, and sweeps a few slots of each shard, which is locked.
func (m *Memory) sweepShards(slots []slot, raw int64, virtual bool) {
	unlockRecords(slots)
	for i := range slots {
		slots[i].shard.SweepStep(&m.table, raw, virtual)
	}
}

// slot is one limit of a decision: the place of its history, and the state found there.
type slot struct {
	limit  *limitRules
	rule   *window.Rule // the limit's numbers at the instant of the decision
	shard  *keytable.Shard
	tag    uint32
	ref    uint32           // the record, 0 = none yet
	record *keytable.Record // the same, locked, or nil
	h      *window.History  // the history decided on
	arena  *window.Arena    // of the history's log
	state  window.State

	// corrected reports that h is a copy on which the clock's correction was made (R2), or
	// the change of a bucket's rate (R12).
	corrected bool

	// Of a refund: the units that it took, the end of their entry, and the cutoff.
	took, end, cutoff int64

	// As the attempt found it:
	from   window.Mark // where the entries that count begin
	room   int64       // units that fitted
	closed bool        // the minimum interval had not passed

	wait int64 // this limit's own wait after the decision
}

// lockSlots locks and loads the slots of a call at an instant, or at that of the clock. It
// returns the instant as read, and the instant of the decision, which R2 may have moved.
// Where the clock was corrected the slots hold copies (R2).
//
// The clock is read under the locks. So no call of a shard has read it later than the
// call that gets the lock next, and no decision happens at an instant before a sweep that
// has removed a history which still counted then (R1, R3).
func (m *Memory) lockSlots(limits []limitRules, k *engine.Key, slots []slot, at moment) (raw, now int64, locks uint64) {
	locks = m.locate(limits, k, slots)
	m.table.Lock(locks)
	for i := range slots {
		slots[i].load(k)
	}
	raw = m.instant(at)
	now, asIs := clamp(slots, raw)
	if !asIs {
		m.adjustCopies(slots, now)
	}
	return raw, now, locks
}

// adjustCopies gives each slot the numbers of its present window, and a copy of its history
// if that must be adjusted. It stays a copy until it is certain that it may be stored (R2,
// R4).
func (m *Memory) adjustCopies(slots []slot, now int64) {
	for i := range slots {
		s := &slots[i]
		s.rule = s.limit.at(now)
		if s.h.Last > now || s.ref != 0 && s.h.Rate() != s.rule.Rate {
			s.h, s.arena = s.h.Clone(s.arena)
			s.corrected = true
			m.adjust(s, now)
		}
	}
}

// adjust corrects the slot's history: entries of the future count as entries of now (R2),
// and a bucket gets the limit's rate (R12).
func (m *Memory) adjust(s *slot, now int64) {
	if s.h.Last > now {
		s.h.Redate(s.arena, s.rule.End(now), now)
	}
	if s.h.Rate() != s.rule.Rate {
		s.h.Pace(s.rule, m.rates.numbered(s.h.Rate()), now)
	}
}

// look reads the units that count now.
func (s *slot) look(now int64) {
	if s.rule.Rate != 0 {
		s.state.Used = s.h.Missing(s.rule.Refill, now)
		return
	}
	s.state.Used, s.from = s.h.Used(s.arena, s.rule.Cutoff(now))
}

// locate finds the shard of each slot and returns their set.
func (m *Memory) locate(limits []limitRules, k *engine.Key, slots []slot) (locks uint64) {
	hashed, value := -1, uint64(0) // limits of a policy often count by the same value
	for i := range slots {
		s := &slots[i]
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
		s.shard, s.tag = m.table.Shard(h), uint32(h)
		locks |= keytable.Bit(h)
	}
	return locks
}

// noHistory is the history of a key without a record. It is never written: recording
// begins with a record. A copy in the slot instead would make each decision allocate its
// slots, since they would point into themselves.
var noHistory = window.Empty

// load finds the slot's history and locks its record; the shard is locked.
func (s *slot) load(k *engine.Key) {
	s.rule, s.arena, s.corrected = &s.limit.Rule, &s.shard.Arena, false
	s.ref = s.limit.find(s.shard, s.tag, k)
	if s.ref == 0 {
		s.h, s.record = &noHistory, nil
		return
	}
	s.record = s.shard.At(s.ref)
	s.record.Lock()
	s.h = &s.record.History
}

// clamp returns the instant of the decision: the instant as read, or the newest entry of
// a history that is less than a second ahead of it. Behind a history by more, the clock
// was corrected: entries of the future count as entries of now. asIs reports that no
// history needs this correction (R2), another rate (R12), or the window of a Period.
func clamp(slots []slot, raw int64) (now int64, asIs bool) {
	now, asIs = raw, true
	for i := range slots {
		s := &slots[i]
		if last := s.h.Last; last > now {
			if s.h.Behind(raw) {
				asIs = false
			} else {
				now = last
			}
		}
		if s.limit.zoned != nil || s.ref != 0 && s.h.Rate() != s.limit.Rate {
			asIs = false
		}
	}
	return now, asIs
}
