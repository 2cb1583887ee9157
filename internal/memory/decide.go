package memory

import (
	"context"
	"time"

	"github.com/weirlimit/weir/engine"
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

// Do decides calls in their order, with one reading of the clock (R1).
func (m *Memory) Do(_ context.Context, calls []engine.Call) {
	now := moment{}
	if m != nil && len(calls) > 1 {
		now = moment{m.now(), fromReading}
	}
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			c.Fail(nil)
			m.decideAt(c, now)
		}
	}
}

// Decide decides one call without a result.
func (m *Memory) Decide(c *engine.Call) { m.decideAt(c, moment{}) }

// decideAt decides a call at its own instant, or at the given one if it has none.
func (m *Memory) decideAt(c *engine.Call, at moment) {
	at = momentOf(c, at)
	switch {
	case m == nil:
		c.Err = engine.Input("request", "the zero engine decides nothing; make one with weir.NewMemory or weirdisk.Open")
	case c.States != nil && len(c.States) != len(c.Rules.Limits): // a panic under a lock would keep it
		c.Err = engine.Input("request", "room for %d states, and the rules have %d limits; leave States nil or make it as long", len(c.States), len(c.Rules.Limits))
	case c.Op == engine.Count:
		c.Result.Granted = m.count(c, at)
		return
	case c.Op == engine.Reset:
		m.reset(c.Rules, &c.Key)
		return
	case c.ID != "" && c.N > 0 && c.Op != engine.Peek:
		c.Err = m.decideOnce(c, at)
	default:
		c.Err = m.handle(c, at, "", false)
	}
	if c.Err != nil {
		c.Fail(c.Err)
	}
}

// Allow decides an attempt of n units under rules of m, without a Call. The zero Time is now.
func (m *Memory) Allow(b *Rules, k *engine.Key, n int64, at time.Time, d *engine.Result) error {
	when := moment{}
	if !at.IsZero() {
		when = moment{at.UnixMicro(), fromCaller}
	}
	one := b.simple && n == 1
	if one && m.allowOne(&b.limits[0], k, when, d) {
		return nil
	}
	return m.decide(b, k, &request{N: n, at: when}, !one, d)
}

// handle decides a call that is neither a count nor a reset. once is the name of the operation,
// if it is to be remembered, and full reports that there is no room for it.
func (m *Memory) handle(c *engine.Call, at moment, once string, full bool) error {
	if c.Op == engine.Refund {
		return m.refund(c, at, full, once)
	}
	b := m.Rules(c.Rules)
	one := b.simple && c.N == 1 && c.Op == engine.Attempt && c.States == nil && once == ""
	if one && m.allowOne(&b.limits[0], &c.Key, at, &c.Result) {
		return nil
	}
	return m.decide(b, &c.Key, &request{c.Op, c.N, c.States, at, once, full}, !one, &c.Result)
}

// decide decides a request. try is false if allowOne has failed, because the first way of
// decideOn would most likely fail too. d is a pointer, because copying its hundred bytes from
// function to function takes as long as the decision.
func (m *Memory) decide(b *Rules, k *engine.Key, req *request, try bool, d *engine.Result) error {
	// The records stand on the stack, as many as the rules need: clearing room for
	// engine.MaxLimits would cost as much as a decision.
	switch n := len(b.limits); {
	case n == 1:
		var records [1]record
		return m.decideWithRoom(b, k, req, try, records[:], d)
	case n == 2:
		var records [2]record
		return m.decideWithRoom(b, k, req, try, records[:], d)
	case n <= 4:
		var records [4]record
		return m.decideWithRoom(b, k, req, try, records[:n], d)
	default:
		var records [engine.MaxLimits]record
		return m.decideWithRoom(b, k, req, try, records[:n], d)
	}
}

// decideWithRoom decides on the given records. At a cap it makes room and decides again, as
// long as it finds histories to remove: bytes come back by whole pages, so the first ones
// found may not be enough.
func (m *Memory) decideWithRoom(b *Rules, k *engine.Key, req *request, try bool, records []record, d *engine.Result) error {
	c := claim{records: records}
	c.at.micros, c.at.from = req.at.micros, req.at.from // a copy of the struct would wait for its fields
	defer putBuffer(m.name(&c, b.limits, k))
	for tries := 0; ; tries++ {
		before := m.reclaimed.Load()
		err := m.decideOn(b, req, &c, try && tries == 0, d)
		if req.full || err != m.fullOfKeys && err != m.fullOfBytes {
			return err
		}
		if tries == maxTries || !m.makeRoom(c.shards(), req.at, before) {
			m.rejected.Add(1)
			return err
		}
	}
}

// decideOn reads everything, then decides, then writes all or nothing (R7), while it holds all
// histories. The first way holds them alone. If a history is missing, is corrected or needs
// room, the second way holds their shards as well.
func (m *Memory) decideOn(b *Rules, req *request, c *claim, try bool, d *engine.Result) error {
	if try && m.tryHold(c) {
		if done, err := m.decideHeld(b, req, c, d); done {
			return err
		}
	}
	m.hold(c, req.N > 0 && req.Op != engine.Peek)
	_, err := m.decideHeld(b, req, c, d)
	return err
}

// decideHeld decides on records that are held, and releases them. done is false if the shards
// are needed as well; then nothing has changed.
func (m *Memory) decideHeld(b *Rules, req *request, c *claim, d *engine.Result) (done bool, err error) {
	room, open := int64(window.Forever), true
	for i := range c.records {
		r := &c.records[i]
		r.state = r.h.Look(r.arena, r.rule, c.now)
		r.room = r.state.Room(r.rule)
		r.closed = r.state.IntervalWait(r.rule, c.now) > 0
		room = min(room, r.limit.fitting(r.room, req.N))
		open = open && !r.closed
	}
	granted, full := window.Grant(req.N, room, open, b.mode == engine.Partial)
	units := granted // to record
	switch {
	case req.Op == engine.Peek || req.N == 0:
		units = 0
	case req.Op == engine.Record:
		granted, full, units = req.N, true, req.N
	case b.mode == engine.CountDenied:
		units = req.N
	}
	switch {
	case units > 0:
		done, err = m.record(b, req, c, units, granted == 0)
	case req.Op == engine.Attempt && req.N > 0:
		m.storeCorrections(c) // a denial stores these, and nothing else
		done = true
	default:
		done = true
	}
	if !done || err != nil {
		m.release(c)
		return done, err
	}
	d.Granted, d.Allowed = granted, full || granted > 0
	answer(b, req, c.records, c.now, full, d)
	if m.journal != nil {
		m.report(b, req, c, units, d)
	}
	if units > 0 { // peeks and denials remove no history (R4)
		m.sweepAfter(c)
	}
	m.release(c)
	return true, nil
}

// report sends the changes of a decision to the journal.
func (m *Memory) report(b *Rules, req *request, c *claim, units int64, d *engine.Result) {
	r := m.newReport(c.now, c.at.virtual())
	switch {
	case units > 0:
		if r.recorded(c.records, b.mode, units); req.once != "" {
			r.remembered(newOperation(b.plan, req.once, req.Op, req.N, 0, d))
		}
	case req.Op == engine.Attempt && req.N > 0:
		r.corrections(c.records)
	}
	r.send()
}

// answer completes the decision from the histories as they are now (R8).
func answer(b *Rules, req *request, records []record, now int64, full bool, d *engine.Result) {
	var wait, reset int64
	remaining := int64(window.Forever)
	for i := range records {
		s := &records[i]
		r := s.rule
		s.wait = s.h.Wait(s.arena, r, &s.state, now, s.limit.units(req.N))
		if window.Longer(s.wait, wait) {
			wait = s.wait
		}
		reset = max(reset, s.h.Reset(r, &s.state, now))
		remaining = min(remaining, s.state.Room(r))
	}
	d.Remaining, d.RetryAfter, d.ResetAfter = remaining, span(wait), span(reset)
	d.At = time.UnixMicro(now)
	if !full {
		d.Limit = binding(b.mode, records, req.N, d.Granted).limit.described.Name
	}
	for i := range req.States {
		s, to := &records[i], &req.States[i]
		*to = s.limit.described
		to.Used, to.Remaining, to.RetryAfter = s.state.Used, s.state.Room(s.rule), span(s.wait)
		to.NextAfter, to.MinIntervalAfter = span(s.h.Next(s.arena, s.rule, &s.state, now)), span(s.state.IntervalWait(s.rule, now))
		to.ResetAfter = span(s.h.Reset(s.rule, &s.state, now))
	}
}

// binding returns the limit that kept an attempt of n units from being granted in full:
// after a partial grant the limit with the least room, after a denial that with the
// longest wait. The first wins a tie.
func binding(mode engine.Mode, records []record, n, granted int64) *record {
	var b *record
	for i := range records {
		s := &records[i]
		switch {
		case granted > 0:
			if b == nil || s.room < b.room {
				b = s
			}
		case s.closed || s.room < s.limit.units(n) && (mode != engine.Partial || s.room <= 0):
			if b == nil || window.Longer(s.wait, b.wait) {
				b = s
			}
		}
	}
	return b
}

// span converts microseconds, or window.Never, to a duration.
func span(us int64) time.Duration {
	if us == window.Never {
		return engine.Never
	}
	return time.Duration(us) * time.Microsecond
}

// allowOne decides the commonest attempt: one unit of one exact rolling window by one value,
// on a key with a history that has room. It takes the steps of tryHold and decideHeld, in the
// same order and by the same arithmetic, without loops and records (BenchmarkAllow, general
// and not).
//
// In every other case it reports false and changes nothing.
func (m *Memory) allowOne(l *limitRules, k *engine.Key, at moment, d *engine.Result) bool {
	virtual := at.virtual()
	key := m.table.Text(k.Value(0)).In(&m.table, l.group, virtual)
	s := m.table.Shard(key)
	slot := s.Find(key)
	if slot == nil {
		return false
	}
	raw := m.instant(at)
	if slot = s.Acquire(slot, key, k.Value(0)); slot == nil {
		return false
	}
	h := &slot.History
	now := max(raw, h.Last) // R2
	var used, front int64
	known := now-raw < window.Step
	if known {
		used, front, known = h.One(&s.Arena, l.Max, l.Window, now)
	}
	if !known {
		slot.Release(key)
		return false
	}
	// The decision is complete before the lock is released: the release waits for these
	// stores in any case, and a copy of the decision right after them would (5 ns).
	d.Allowed, d.Remaining, d.At = used < l.Max, l.Max-used, time.UnixMicro(now)
	if d.Allowed {
		d.Granted = 1
		d.Remaining--
		if m.journal != nil {
			m.reportOne(l, k.Value(0), now, virtual)
		}
	} else {
		d.Limit = l.described.Name
	}
	if d.Remaining == 0 {
		d.RetryAfter = span(front + l.Window - now)
	}
	d.ResetAfter = span(h.End() + l.Window - now)
	slot.Release(key)
	if d.Allowed && sweepDue(raw) && s.TryLock() {
		s.SweepStep(&m.table, raw, virtual)
		s.Unlock()
	}
	return true
}

// reportOne sends the change of one history, to which a unit was added, to the journal.
func (m *Memory) reportOne(l *limitRules, key string, now int64, virtual bool) {
	r := m.newReport(now, virtual)
	r.appended(l, key, now, 1, now-l.Window)
	r.send()
}
