package memory

import (
	"container/heap"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
)

// Reservation is the state of a reservation beside that of the operation that opened it (R19).
// Instants and times are microseconds. It is small, because a server may open one for each request.
type Reservation struct {
	TTL       int64
	Expires   int64      // end of its life
	Hold      int64      // instant of its hold; -1 = it has none
	Actual    int64      // units of the settlement; -1 = it is open
	TakenBack int64      // the answer to the settlement: units that it took back,
	SettledAt int64      // and its instant; 0 before
	Extension *Extension // the newest one with units, or nil
}

// Extension is further units of a reservation, and the answer to their call.
type Extension struct {
	Units      int64 // all granted units after it
	Newest     int64 // the units of the extension
	At         int64
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// minKept is the least time for which a reservation is remembered after its grant, an extension
// and its settlement (R19).
const minKept int64 = 60 * 1_000_000

// Settled reports whether the reservation is settled.
func (r *Reservation) Settled() bool { return r.Actual >= 0 }

// keptUntil returns the instant until which the reservation is remembered after a change at now.
func (r *Reservation) keptUntil(now int64) int64 { return max(r.Expires, now+minKept) }

// open makes the reservation of an attempt that was granted.
func (o *Operation) open(c *engine.Call) {
	isHold := func(l engine.Limit) bool { return l.Kind == engine.KindConcurrency }
	r := &Reservation{TTL: c.TTL, Expires: o.Start() + c.TTL, Hold: -1, Actual: -1}
	if slices.ContainsFunc(c.Rules.Limits, isHold) {
		r.Hold = o.Start()
	}
	o.Reservation, o.Until = r, r.keptUntil(o.Start())
}

// newest returns all units of the reservation, and the instant and the units of its newest grant.
func (o *Operation) newest() Extension {
	if e := o.Reservation.Extension; e != nil {
		return *e
	}
	return Extension{Units: o.Granted, Newest: o.Granted, At: o.Start()}
}

// Reserved returns all granted units of the operation's reservation.
func (o *Operation) Reserved() int64 { return o.newest().Units }

// describe sets the reservation of a call that has room for it.
func (m *Memory) describe(o *Operation, c *engine.Call) {
	r := o.Reservation
	if c.Reservation == nil || r == nil {
		return
	}
	*c.Reservation = engine.Reservation{
		Units:     o.Reserved(),
		ExpiresAt: r.Expires,
		Settled:   r.Settled(),
	}
	if r.Settled() {
		c.Reservation.Actual = r.Actual
		return
	}
	if shortest := m.Rules(c.Rules).shortest; shortest > 0 && r.Hold >= 0 {
		c.Reservation.HeldUntil = r.Hold + shortest
	}
}

// revision is a settlement or an extension of a reservation while it is decided.
type revision struct {
	operation *operation
	grant     Extension // the newest one
	further   int64     // units to take, in limits that takeFurther
	back      int64     // units of the newest grant to take back

	next    Reservation // as the reservation will be
	until   int64       // it is remembered until then
	changed bool        // next and until are set
}

// changeReservation settles or extends a reservation, in one step (R19).
func (m *Memory) changeReservation(c *engine.Call, at moment) error {
	var room [256]byte
	name := appendName(room[:0], c.Rules, &c.Key, c.ID)
	s := &m.operations.shards[maphash.Bytes(m.seed, name)%uint64(len(m.operations.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !at.virtual() {
		at = moment{m.instant(at), fromReading} // one reading for the life and the decision
	}
	o := s.byName[string(name)]
	if o == nil || at.micros >= o.Until || o.Reservation == nil {
		return fmt.Errorf("%w: it is unknown, or was settled more than a minute ago",
			engine.ErrExpired)
	}
	x := &revision{operation: o, grant: o.newest(), next: *o.Reservation}
	// Through a function variable, both would let c escape, and so that of every call of a Limiter.
	planned, err := false, error(nil)
	if c.Op == engine.Extend {
		planned, err = x.planExtension(c, at.micros)
	} else {
		planned, err = x.planSettlement(c, at.micros)
	}
	if err == nil && planned {
		req := &request{Op: c.Op, N: c.N, at: at, revision: x}
		err = m.decide(m.Rules(c.Rules), &c.Key, req, &c.Result)
	}
	if err != nil {
		return err
	}
	if x.changed {
		*o.Reservation = x.next
		o.Until = x.until
		heap.Fix(s.heap(o.virtual), int(o.place))
	}
	m.describe(&o.Operation, c)
	return nil
}

// checkLife returns ErrExpired unless the reservation lives at an instant.
func (x *revision) checkLife(at int64) error {
	if at >= x.next.Expires {
		return fmt.Errorf("%w: the grant of %s stays",
			engine.ErrExpired, misuse.Units(x.grant.Units))
	}
	return nil
}

// planSettlement prepares a settlement, or repeats the answer of an equal one. planned reports
// that it must be decided.
func (x *revision) planSettlement(c *engine.Call, at int64) (planned bool, err error) {
	r, actual := &x.next, c.N
	if actual == engine.AllUnits {
		actual = x.grant.Units
	}
	if r.Settled() && actual != r.Actual {
		return false, fmt.Errorf("%w: with %s, and now %d",
			engine.ErrSettled, misuse.Units(r.Actual), actual)
	}
	if r.Settled() {
		c.Result = engine.Result{
			Granted:  r.TakenBack,
			At:       time.UnixMicro(r.SettledAt),
			Replayed: true,
		}
		return false, nil
	}
	x.further = max(actual-x.grant.Units, 0)
	x.back = min(max(x.grant.Units-actual, 0), x.grant.Newest)
	x.next.Actual = actual
	return true, x.checkLife(at)
}

// planExtension prepares an extension, or repeats the answer of an equal one. c.From is the number
// of units that the caller believes the reservation has. If it is the number before the newest
// extension, and N is that of this extension, the call is a repetition. planned reports that it
// must be decided.
func (x *revision) planExtension(c *engine.Call, at int64) (planned bool, err error) {
	if x.next.Settled() {
		return false, fmt.Errorf("%w: with %s", engine.ErrSettled, misuse.Units(x.next.Actual))
	}
	if err := x.checkLife(at); err != nil {
		return false, err
	}
	units, e := x.grant.Units, x.next.Extension
	if c.N > 0 && c.From != engine.Unknown && c.From != units {
		if e == nil || c.From+c.N != units || c.N != e.Newest {
			return false, engine.Input("units", "the reservation has %s, not %d; "+
				"extend it from that number", misuse.Units(units), c.From)
		}
		c.Result = engine.Result{
			Allowed:    true,
			Granted:    e.Newest,
			Remaining:  e.Remaining,
			RetryAfter: e.RetryAfter,
			ResetAfter: e.ResetAfter,
			At:         time.UnixMicro(e.At),
			Replayed:   true,
		}
		return false, nil
	}
	if units+c.N > engine.MaxUnits {
		return false, engine.Input("units", "the reservation has %s, and %d more pass %d; "+
			"take fewer", misuse.Units(units), c.N, engine.MaxUnits)
	}
	x.further = c.N
	return true, nil
}

// takesFurther reports whether the limit takes further units of a reservation: it has no cost of
// its own, and is no concurrency limit (R19).
func (l *limitRules) takesFurther() bool { return l.cost == 0 && !l.isHold() }

// hasHold reports whether the reservation has a hold under the rules.
func (x *revision) hasHold(b *Rules) bool { return x.next.Hold >= 0 && b.shortest > 0 }

// settleHeld settles a reservation on records that are held, and releases them. done is false if
// the shards are needed as well; then nothing has changed.
func (m *Memory) settleHeld(c *claim, d *engine.Result) (done bool, err error) {
	x := c.req.revision
	records := false // further units are recorded
	copies := false  // units are taken back from copies of all histories
	c.lookAll()
	for i := range c.records {
		r := &c.records[i]
		r.took = 0
		if x.further > 0 && r.limit.takesFurther() {
			r.entry.Units, records = x.further, true
		}
	}
	if records {
		done, err = m.makeFurtherReady(c)
	} else if done, copies = true, c.mustCopy(); copies {
		c.copyAll()
	}
	if !done || err != nil {
		m.release(c)
		return done, err
	}
	ended, refunded := x.takeBack(c)
	changed := records || ended > 0 || refunded > 0
	switch {
	case c.req.N == engine.AllUnits && ended == 0 && x.hasHold(c.rules):
		err = fmt.Errorf("%w: its hold has ended; settle it with a number of units",
			engine.ErrExpired)
	case changed && !records:
		err = m.storeRefund(c, copies)
	}
	if err != nil {
		m.release(c)
		return true, err
	}
	for i := range c.records {
		r := &c.records[i]
		r.corrected = r.corrected && changed
	}
	c.addAll(false)
	d.Granted, d.At = refunded, time.UnixMicro(c.now)
	x.next.TakenBack, x.next.SettledAt = refunded, c.now
	m.revise(c, records)
	return true, nil
}

// makeFurtherReady makes room for the further units of a settlement.
func (m *Memory) makeFurtherReady(c *claim) (done bool, err error) {
	if err := c.overflow(); err != nil {
		return true, err
	}
	if c.isReady() {
		return true, nil
	}
	return m.prepare(c)
}

// takeBack ends the holds of a reservation, and takes back the units of its newest grant that were
// not used. ended is the most units taken in one concurrency limit, refunded in one other limit.
func (x *revision) takeBack(c *claim) (ended, refunded int64) {
	// The cost of an appointment is returned if nothing of it will be used (R18).
	isCancelled := x.next.Actual == 0 && x.grant.Newest == x.grant.Units
	for i := range c.records {
		r := &c.records[i]
		switch {
		case !r.limit.isHold() && x.back > 0:
			refunded = max(refunded, r.refund(x.grant.At, x.back, c.now, isCancelled))
		case r.limit.isHold() && x.next.Hold >= 0:
			r.refund(x.next.Hold, x.operation.Granted, c.now, true)
			ended = max(ended, r.took)
		}
	}
	return ended, refunded
}

// extendHeld extends a reservation on records that are held, and releases them. done is false if
// the shards are needed as well; then nothing has changed.
func (m *Memory) extendHeld(c *claim, d *engine.Result) (done bool, err error) {
	x, n := c.req.revision, c.req.N
	c.lookAll()
	held := x.hasHold(c.rules)
	if held && !x.planMove(c) {
		m.release(c)
		return true, fmt.Errorf("%w: its hold has ended", engine.ErrExpired)
	}
	part := c.takers()
	if !part.fits(n) {
		part.answer(false, d)
		m.release(c)
		return true, nil
	}
	changed := held
	for i := range c.records {
		if r := &c.records[i]; n > 0 && r.limit.takesFurther() {
			r.entry.Units, changed = n, true
		}
	}
	more := 0 // bytes
	if n > 0 && x.next.Extension == nil {
		more = extensionBytes
	}
	if !m.table.Take(more) {
		m.release(c)
		return true, m.fullOfBytes
	}
	if done = true; changed && !c.isReady() {
		done, err = m.prepare(c)
	}
	if !done || err != nil {
		m.table.Give(more)
		m.release(c)
		return done, err
	}
	for i := range c.records {
		r := &c.records[i]
		r.corrected = r.corrected && changed
		if r.limit.isHold() && r.entry.Units > 0 {
			x.takeHold(r, c.now)
		}
	}
	c.addAll(false)
	d.Allowed = true
	d.Granted = n
	d.At = time.UnixMicro(c.now)
	if part = c.takers(); len(part.records) > 0 {
		part.answer(true, d)
	}
	x.extend(c, d)
	m.revise(c, changed)
	return true, nil
}

// planMove plans to move the units that the reservation holds to now. It reports false if there
// are none, because the hold has ended by time or by a reset.
func (x *revision) planMove(c *claim) (moves bool) {
	hold := x.next.Hold
	if c.now >= hold+c.rules.shortest {
		return false
	}
	for i := range c.records {
		r := &c.records[i]
		if !r.limit.isHold() || r.slot == nil {
			continue
		}
		if r.h.Has(r.arena, r.h.Holder(r.rule, hold), r.rule.Cutoff(c.now)) {
			r.entry.Units, moves = r.limit.units(x.operation.Granted), true
		}
	}
	return moves
}

// takeHold takes the units of the hold out of a history. The entry of now will get them. It is
// ready, and it stays ready with fewer entries.
func (x *revision) takeHold(r *record, now int64) {
	r.refund(x.next.Hold, x.operation.Granted, now, true)
	r.entry.Units = r.took
	_, r.entry.Drop = r.h.Used(r.arena, r.cutoff)
}

// takers returns a claim with copies of the records that take further units of an extension.
func (c *claim) takers() claim {
	part := *c
	part.records = nil
	if c.req.N == 0 {
		return part
	}
	for i := range c.records {
		if c.records[i].limit.takesFurther() {
			part.records = append(part.records, c.records[i])
		}
	}
	return part
}

// extend makes the next state of an extended reservation.
func (x *revision) extend(c *claim, d *engine.Result) {
	r := &x.next
	if n := c.req.N; n > 0 {
		r.Extension = &Extension{
			Units:      x.grant.Units + n,
			Newest:     n,
			At:         c.now,
			Remaining:  d.Remaining,
			RetryAfter: d.RetryAfter,
			ResetAfter: d.ResetAfter,
		}
	}
	r.Expires = max(c.now, x.operation.Start()) + r.TTL
	if x.hasHold(c.rules) {
		r.Hold, r.Expires = c.now, c.now+max(r.TTL, c.rules.longest)
	}
}

// revise reports a changed reservation with its histories, and releases these. recorded reports
// that units were recorded.
func (m *Memory) revise(c *claim, recorded bool) {
	x := c.req.revision
	x.until, x.changed = max(x.operation.Until, x.next.keptUntil(c.now)), true
	if c.near {
		m.storeBlocks(c)
	}
	if m.journal != nil {
		r := m.newReport(c.now, c.at.virtual())
		r.recorded(c.records, c.rules.mode)
		revised := x.operation.Operation
		revised.Reservation, revised.Until = &x.next, x.until
		r.remembered(&revised, x.operation.virtual)
		r.send()
	}
	c.unlockHistories()
	if recorded && (c.inserted || sweepDue(c.raw)) {
		m.sweep(c)
	}
	m.unlockShards(c)
}
