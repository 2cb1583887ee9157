package memory

import (
	"context"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// request is a call as the engine decides it. The fields in upper case are those of engine.Call,
// and From is set for a Block only.
type request struct {
	Op       engine.Op
	N        int64
	From     int64
	MaxWait  int64
	States   []engine.State
	at       moment
	once     *once     // the operation, if it is to be remembered
	revision *revision // of a Settle or an Extend

	// lockShards makes decideWithRoom hold the shards from the beginning. It is set after the fast
	// path has failed: most likely a history is missing, so tryHold would fail too.
	lockShards bool
}

// inserts reports whether the request may need a history of the limit that is missing.
func (req *request) inserts(l *limitRules) bool {
	switch {
	case req == nil:
		return false
	case req.Op == engine.Attempt || req.Op == engine.Record:
		return req.N > 0 && l.cost >= 0
	case req.revision != nil:
		return req.revision.further > 0 && l.takesFurther()
	}
	return false
}

// mayExceed reports whether the request may exceed a cap, as a settlement (R19).
func (req *request) mayExceed() bool { return req != nil && req.Op == engine.Settle }

// Do decides calls in their order, with one reading of the clock (R1).
func (m *Memory) Do(_ context.Context, calls []engine.Call) {
	now := moment{}
	if len(calls) > 1 {
		now = moment{m.now(), fromReading}
	}
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			c.Fail(nil)
			m.decideAt(c, now)
		}
	}
}

// Decide decides one call, whose Result must be zero. Do clears it, and Decide does not.
func (m *Memory) Decide(c *engine.Call) { m.decideAt(c, moment{}) }

// decideAt decides a call at its own instant, or at the given one if it has none.
func (m *Memory) decideAt(c *engine.Call, at moment) {
	at = momentOf(c, at)
	switch {
	case c.States != nil && len(c.States) != len(c.Rules.Limits):
		c.Err = errStates(c)
	case c.Op == engine.Count:
		c.Result.Granted = m.count(c, at)
		return
	case c.Op == engine.Reset:
		m.reset(c.Rules, &c.Key)
		return
	case c.Op == engine.Peek && c.Histories != nil:
		c.Err = m.inspect(c, at)
	case c.Op == engine.Settle || c.Op == engine.Extend:
		c.Err = m.changeReservation(c, at)
	case isOnce(c):
		own := *c // it escapes, and c of other calls must not
		own.Err = m.decideOnce(&own, at)
		c.Result, c.Err = own.Result, own.Err
	default:
		c.Err = m.handle(c, at, nil)
	}
	if c.Err != nil {
		c.Fail(c.Err)
	}
}

// errStates rejects a call whose States do not fit its rules. Otherwise there would be a panic under
// a lock, which would stay locked.
func errStates(c *engine.Call) error {
	return engine.Input("request", "room for %d states, and the rules have %d limits; "+
		"leave States nil or make it as long", len(c.States), len(c.Rules.Limits))
}

// Takes reports whether AllowFast and Allow decide an attempt of n units on that key by the rules:
// the input is valid, and n is not 0. It is false for keys of three and more values as well.
func Takes(p *engine.Compiled, k *engine.Key, n int64) bool {
	return uint64(n-1) < uint64(engine.MaxUnits) && p.Fits(k)
}

// Allow decides an attempt of n units now, after AllowFast has returned false.
func (b *Rules) Allow(k *engine.Key, n int64, d *engine.Result) error {
	return b.engine.decide(b, k, &request{N: n, lockShards: b.isFast}, d)
}

// handle decides a call that is no count, no reset, and does not change a reservation. once is the
// operation, if it is to be remembered.
func (m *Memory) handle(c *engine.Call, at moment, once *once) error {
	if c.Op == engine.Refund {
		return m.refund(c, at, once)
	}
	b := m.Rules(c.Rules)
	fast := b.isFast && isPlainAttempt(c) && once == nil
	if fast && b.allowFast(&c.Key, c.N, at, &c.Result) {
		return nil
	}
	req := &request{Op: c.Op, N: c.N, MaxWait: c.MaxWait, States: c.States, at: at, once: once}
	req.lockShards = fast || c.Op == engine.Block
	if c.Op == engine.Block {
		req.From = c.From
	}
	return m.decide(b, &c.Key, req, &c.Result)
}

// isPlainAttempt reports whether a call is an attempt of some units that needs no states and does
// not wait.
func isPlainAttempt(c *engine.Call) bool {
	return c.Op == engine.Attempt && c.N > 0 && c.States == nil && c.MaxWait == 0
}

// decide decides a request. d is a pointer, because copying its hundred bytes from function to
// function takes as long as the decision.
func (m *Memory) decide(b *Rules, k *engine.Key, req *request, d *engine.Result) error {
	// The records stand on the stack, as many as the rules need: clearing room for
	// engine.MaxLimits would cost as much as a decision.
	switch n := len(b.limits); {
	case n == 1:
		var records [1]record
		return m.decideWithRoom(b, k, req, records[:], d)
	case n == 2:
		var records [2]record
		return m.decideWithRoom(b, k, req, records[:], d)
	case n <= 4:
		var records [4]record
		return m.decideWithRoom(b, k, req, records[:n], d)
	default:
		var records [engine.MaxLimits]record
		return m.decideWithRoom(b, k, req, records[:n], d)
	}
}

// decideWithRoom decides on the given records. It reads everything, then decides, then writes all
// or nothing (R7), while it holds all histories. It first tries to hold the histories alone. If
// one is missing, must be corrected or needs room, it holds their shards as well.
//
// At a cap it makes room and decides again, as long as it finds histories to remove. Bytes come
// back by whole pages, so the first ones found may not be enough.
func (m *Memory) decideWithRoom(
	b *Rules, k *engine.Key, req *request, records []record, d *engine.Result,
) (err error) {
	var c claim
	c.rules, c.req = b, req
	c.records = records
	// Field by field: a copy of the struct would load both fields as one wide word. It would wait
	// until the stores of the two fields, which were just made, have reached the cache.
	c.at.micros, c.at.from = req.at.micros, req.at.from
	buffer := m.name(&c, b.limits, k)
	done := false
	if !req.lockShards && m.tryHold(&c) {
		done, err = m.decideHeld(&c, d)
	}
	for tries := 0; !done; tries++ {
		before := m.reclaimed.Load()
		m.hold(&c)
		_, err = m.decideHeld(&c, d)
		done = req.once.isFull() || err != m.fullOfKeys && err != m.fullOfBytes
		if !done && (tries == maxTries || !m.makeRoom(c.shards(), req.at, before)) {
			m.rejected.Add(1)
			done = true
		}
	}
	putBuffer(buffer)
	return err
}

// decideHeld decides on records that are held, and releases them. done is false if the shards
// are needed as well; then nothing has changed.
//
// It takes four steps: read all histories, decide, write all or nothing, and answer from the
// histories as they are then. room is the least room of all limits. open reports that no minimum
// interval and no block denies the call, and full that it gets all its units.
func (m *Memory) decideHeld(c *claim, d *engine.Result) (done bool, err error) {
	switch c.req.Op {
	case engine.Attempt: // the commonest, below
	case engine.Block:
		return true, m.blockHeld(c, d)
	case engine.Settle:
		return m.settleHeld(c, d)
	case engine.Extend:
		return m.extendHeld(c, d)
	}
	req := c.req
	mode := c.rules.mode
	records := c.records
	room, open := int64(window.Forever), true
	for i := range records {
		r := &records[i]
		r.state = r.h.Look(r.arena, r.rule, c.now) // as record.look, which is not inlined
		r.room = r.state.Room(r.rule)
		r.closed = r.state.IntervalWait(r.rule, c.now) > 0
		room = min(room, r.limit.fitting(r.room, req.N))
		open = open && !r.closed
	}
	if c.ahead {
		room, open = c.lookAhead(req.N)
	}
	if c.blocked {
		open = false
		c.closeBlocked()
	}
	granted, full := window.Grant(req.N, room, open, mode == engine.Partial && req.MaxWait == 0)
	if req.MaxWait > 0 && !full && !c.blocked {
		start, waits := c.plan(req.N, req.MaxWait)
		if waits && c.locks == 0 {
			return false, m.abandon(c, nil)
		}
		if waits {
			c.start = start
			granted = req.N
			full = true
		}
	}
	units := granted // to record
	switch {
	case req.Op == engine.Peek || req.Op == engine.Probe || req.N == 0:
		units = 0
	case req.Op == engine.Record:
		granted = req.N
		full = true
		units = req.N
	case mode == engine.CountDenied && !c.blocked:
		units = req.N
	}
	if c.rules.blocks && granted == 0 {
		if done, err = m.insertBlocks(c); !done || err != nil {
			return done, m.abandon(c, err)
		}
	}
	switch {
	case units > 0:
		if done, err = m.record(c, units, granted == 0); !done || err != nil {
			return done, m.abandon(c, err)
		}
	case req.Op == engine.Attempt && req.N > 0:
		m.storeCorrections(c) // a denial stores these and a block, and nothing else
	}
	d.Granted, d.Allowed = granted, full || granted > 0
	if c.start > 0 {
		d.StartAfter = span(c.start - c.now)
	}
	c.answer(full, d)
	if req.once != nil && units > 0 {
		req.once.remember(d)
	}
	if c.near {
		m.storeBlocks(c)
	}
	if m.journal != nil {
		m.report(c, units)
	}
	c.unlockHistories()
	if units > 0 && (c.inserted || sweepDue(c.raw)) { // peeks and denials remove no history (R4)
		m.sweep(c)
	}
	m.unlockShards(c)
	return true, nil
}

// abandon removes the blocks that a decision has inserted, releases the records, and returns the
// error of the decision.
func (m *Memory) abandon(c *claim, err error) error {
	if c.begins {
		m.removeNewBlocks(c)
	}
	m.release(c)
	return err
}

// look reads the history before a decision.
func (r *record) look(now int64) {
	r.state = r.h.Look(r.arena, r.rule, now)
	r.room = r.state.Room(r.rule)
	r.closed = r.blocked > 0 || r.state.IntervalWait(r.rule, now) > 0
}

// lookAll reads all histories before a decision.
func (c *claim) lookAll() {
	for i := range c.records {
		c.records[i].look(c.now)
	}
	if c.ahead {
		c.lookAhead(0)
	}
}

// fits reports whether n units of all limits fit in full.
func (c *claim) fits(n int64) bool {
	for i := range c.records {
		if r := &c.records[i]; r.closed || r.limit.units(n) > r.room {
			return false
		}
	}
	return true
}

// report sends the changes of a decision to the journal.
func (m *Memory) report(c *claim, units int64) {
	req, r := c.req, m.newReport(c.now, c.at.virtual())
	switch {
	case units > 0:
		if r.recorded(c.records, c.rules.mode); req.once != nil {
			r.remembered(&req.once.operation.Operation, r.virtual)
		}
	case req.Op == engine.Attempt && req.N > 0:
		r.corrections(c.records)
	}
	r.blocks(c.records)
	r.send()
}

// answer completes the decision from the histories as they are now (R8). The limits that denied
// it begin their blocks, if c.begins (R20).
func (c *claim) answer(full bool, d *engine.Result) {
	req := c.req
	now := c.now
	records := c.records
	var wait, reset int64
	remaining := int64(window.Forever)
	for i := range records {
		s := &records[i]
		if s.appointments != nil {
			s.wait = s.waitFor(now, s.limit.units(req.N))
			reset = max(reset, s.resetAfter(now))
		} else {
			s.wait = s.h.Wait(s.arena, s.rule, &s.state, now, s.limit.units(req.N))
			reset = max(reset, s.h.Reset(s.rule, &s.state, now))
		}
		wait = max(wait, s.wait)
		remaining = min(remaining, s.state.Room(s.rule))
	}
	if c.blocked {
		c.waitForBlocks()
	}
	switch {
	case full:
	case d.Granted > 0:
		d.Limit = c.tightest().limit.described.Name
	default:
		d.Limit = c.denier().limit.described.Name
		if c.begins {
			c.beginBlocks()
		}
	}
	if c.blocked {
		longest := c.longestBlock()
		d.Blocked = span(longest)
		wait, reset = max(wait, longest), max(reset, longest)
		remaining = min(remaining, 0)
	}
	d.Remaining = remaining
	d.RetryAfter = span(wait)
	d.ResetAfter = span(reset)
	d.At = time.UnixMicro(now)
	for i := range req.States {
		s, to := &records[i], &req.States[i]
		*to = s.limit.described
		to.Used = s.state.Used
		to.Remaining = s.remaining()
		to.RetryAfter = span(s.wait)
		next, reset := int64(0), int64(0)
		if s.appointments != nil {
			next, reset = s.nextAfter(now), s.resetAfter(now)
			s.describeAhead(to, now)
		} else {
			next, reset = s.h.Next(s.arena, s.rule, &s.state, now), s.h.Reset(s.rule, &s.state, now)
		}
		to.NextAfter, to.ResetAfter = span(max(next, s.blocked)), span(max(reset, s.blocked))
		to.MinIntervalAfter, to.Blocked = span(s.state.IntervalWait(s.rule, now)), span(s.blocked)
	}
}

// remaining is the room that an answer states: at most none while a block runs (R20).
func (r *record) remaining() int64 {
	room := r.state.Room(r.rule)
	if r.blocked > 0 {
		return min(room, 0)
	}
	return room
}

// tightest returns the limit that cut a partial grant: the first one with the least room.
func (c *claim) tightest() *record {
	b := &c.records[0]
	for i := range c.records {
		if s := &c.records[i]; s.room < b.room {
			b = s
		}
	}
	return b
}

// denier returns the limit that denied the attempt and has the longest wait. The first wins a tie.
func (c *claim) denier() (b *record) {
	for i := range c.records {
		if s := &c.records[i]; c.denied(s) && (b == nil || s.wait > b.wait) {
			b = s
		}
	}
	return b
}

// denierAmong is denier for some limits by their indices, or nil if none of them denied it.
func (c *claim) denierAmong(some []int) (b *record) {
	for _, i := range some {
		if s := &c.records[i]; c.denied(s) && (b == nil || s.wait > b.wait) {
			b = s
		}
	}
	return b
}

// denied reports whether a limit denied the attempt.
func (c *claim) denied(r *record) bool {
	if r.closed {
		return true
	}
	if c.rules.mode == engine.Partial && c.req.Op != engine.Extend && c.req.MaxWait == 0 {
		return r.room <= 0 // any room would have been granted
	}
	return r.room < r.limit.units(c.req.N)
}

// span converts microseconds, or window.Never, to a duration.
func span(us int64) time.Duration {
	if us == window.Never {
		return engine.Never
	}
	return time.Duration(us) * time.Microsecond
}

// AllowFast decides an attempt of n units now, if it is one of the commonest (allowFast).
// Otherwise it reports false and changes nothing. The rules take the attempt (Takes).
func (b *Rules) AllowFast(k *engine.Key, n int64, d *engine.Result) bool {
	return b.isFast && b.allowFast(k, n, moment{}, d)
}

// allowFast is the fast path of the commonest attempts: units of one exact rolling window by one
// value (isFast), on a key with a history that has room. It takes the steps of tryHold and
// decideHeld, by the same arithmetic, without loops and records (BenchmarkFastPath: half the
// time).
//
// In every other case it reports false and changes nothing.
func (b *Rules) allowFast(k *engine.Key, n int64, at moment, d *engine.Result) bool {
	m := b.engine
	l := &b.limits[0]
	text := k.Value(0)
	virtual := at.virtual()
	key := m.table.Text(text).In(&m.table, l.group, virtual)
	s := m.table.Shard(&key)
	slot := s.Find(&key)
	if slot == nil {
		return false
	}
	raw := m.instant(at)
	if slot = s.Acquire(slot, &key, text); slot == nil {
		return false
	}
	h := &slot.History
	now := max(raw, h.Last) // R2
	if now-raw >= window.Step {
		slot.Release(&key)
		return false
	}
	used, drop := h.Used(&s.Arena, now-l.Window)
	room := l.Max - used
	allowed := n <= room
	d.At = time.UnixMicro(now)
	if allowed {
		room -= n
		d.Allowed = true
		d.Granted = n
		d.ResetAfter = span(l.Window)
	} else if l.block > 0 { // the denial begins a block
		*d = engine.Result{}
		slot.Release(&key)
		return false
	} else {
		d.Limit = l.described.Name
		if used > 0 {
			d.ResetAfter = span(h.End() + l.Window - now)
		}
	}
	d.Remaining = room
	if need := n - room; need > 0 { // units that must leave until n more fit (R8)
		switch {
		case n > l.Max:
			d.RetryAfter = engine.Never
		case need <= used:
			d.RetryAfter = span(h.Leave(&s.Arena, drop, need) + l.Window - now)
		default: // some of these n
			d.RetryAfter = span(l.Window)
		}
	}
	// The decision is written before the history. Stores reach the cache in their order, and the
	// line of the entry may have to come from memory. A decision written behind it would wait for
	// that line, and so would the caller that copies it (8 % with 300 entries).
	if allowed && !h.TryRecord(&s.Arena, &window.Add{
		End:    now,
		Now:    now,
		Units:  n,
		Drop:   drop,
		Narrow: l.Narrow,
	}) {
		*d = engine.Result{}
		slot.Release(&key)
		return false
	}
	if allowed && m.journal != nil {
		m.reportOne(l, text, now, n, virtual)
	}
	slot.Release(&key)
	if allowed && sweepDue(raw) && s.TryLock() {
		s.SweepStep(&m.table, raw, virtual)
		s.Unlock()
	}
	return true
}

// reportOne sends the change of one history, to which units were added, to the journal.
func (m *Memory) reportOne(l *limitRules, key string, now, units int64, virtual bool) {
	r := m.newReport(now, virtual)
	r.appended(l, key, now, units, now-l.Window)
	r.send()
}
