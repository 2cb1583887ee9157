package memory

import (
	"time"

	"github.com/weirlimit/weir/engine"
)

// refund decides a refund (R10). once is the operation to remember, or nil. If there is no room to
// remember it, a refund that would take units fails: they are taken from copies, which are dropped.
//
// If storing the change can fail (mustCopy), the units are taken from copies as well. These are
// stored together or not at all.
func (m *Memory) refund(call *engine.Call, at moment, once *once) error {
	b, full := m.Rules(call.Rules), once.isFull()
	c := &claim{records: make([]record, len(b.limits)), at: at}
	defer putBuffer(m.name(c, b.limits, &call.Key))
	if full || !m.tryHold(c) {
		m.hold(c)
	}
	defer m.release(c)
	copies := c.mustCopy() || full
	if copies {
		c.copyAll()
	}
	took := int64(0)
	for i := range c.records {
		took = max(took, c.records[i].refund(call.From, call.N, c.now, true))
	}
	call.Result.At = time.UnixMicro(c.now) // R2 may have moved it ahead of the clock
	switch {
	case took == 0:
		return nil
	case full:
		return m.fullOfKeys
	}
	if err := m.storeRefund(c, copies); err != nil {
		return err
	}
	call.Result.Granted = took
	if once != nil {
		once.remember(&call.Result)
	}
	if m.journal != nil {
		r := m.newReport(c.now, at.virtual())
		if r.recorded(c.records, b.mode); once != nil {
			r.remembered(&once.operation.Operation, r.virtual)
		}
		r.send()
	}
	return nil
}

// copyAll makes copies of all histories that are no copies yet. Appointments that have begun are
// entries of the copies.
func (c *claim) copyAll() {
	for i := range c.records {
		r := &c.records[i]
		if r.slot == nil || r.corrected {
			continue
		}
		r.h, r.arena = r.h.Clone(r.arena)
		r.corrected = true
		if r.appointments != nil {
			r.copyBegun()
		}
	}
}

// storeRefund stores the changes of a refund: the copies of all histories, if it has made any,
// and appointments.
func (m *Memory) storeRefund(c *claim, copies bool) error {
	if copies {
		c.dropUnchanged()
		return m.storeCopies(c)
	}
	for i := range c.records {
		r := &c.records[i]
		a := r.appointments
		if a == nil || r.took == 0 && a.cancelled == 0 {
			continue
		}
		if m.storeAhead(r); a.cancelled > 0 {
			r.slot.SetVirtual(c.at.virtual())
		}
	}
	return nil
}

// refund takes up to n units back from the entry granted at an instant, or from the oldest ones,
// and returns their number. No other entry changes, not even one that no longer counts. A refund
// does not store its instant, so a later decision may be at an earlier one (R2), at which such an
// entry counts. whole is as for cancel.
func (r *record) refund(at, n, now int64, whole bool) int64 {
	r.took = 0
	if took, isAhead := r.cancel(at, n, now, whole); isAhead {
		return min(n, took)
	}
	// A cost of its own stays, because the attempt was made (R10). A hold ends (R17).
	costStays := r.limit.cost > 0 && !r.limit.isHold()
	if r.slot == nil || costStays {
		return 0
	}
	if r.rule.Rate != 0 {
		r.took = r.h.GiveBack(r.rule.Refill, at, at == engine.Oldest, now, n)
		return r.took
	}
	cutoff := r.rule.Cutoff(now)
	if r.refunded, r.cutoff = at, cutoff; at == engine.Oldest {
		r.took = r.h.RefundOldest(r.arena, cutoff, r.limit.units(n))
	} else {
		r.refunded = r.h.Holder(r.rule, at)
		r.took = r.h.Refund(r.arena, r.refunded, cutoff, r.limit.units(n))
	}
	return min(n, r.took)
}

// count returns the units that a limit recorded in the last call.From microseconds (R11).
func (m *Memory) count(call *engine.Call, at moment) int64 {
	var records [1]record
	c := &claim{records: records[:], at: at}
	defer putBuffer(m.name(c, m.Rules(call.Rules).limits[call.Limit:call.Limit+1], &call.Key))
	if !m.tryHold(c) {
		m.hold(c)
	}
	defer m.release(c)
	r := &records[0]
	cutoff := c.now - call.From
	switch call.Rules.Limits[call.Limit].Kind {
	case engine.KindFixed, engine.KindFixedFromFirst:
		cutoff = r.rule.Cutoff(c.now) // the whole window
	}
	recorded, _ := r.h.Used(r.arena, cutoff)
	if r.appointments != nil {
		recorded += r.countBegun(cutoff)
	}
	return recorded
}

// reset removes the histories and blocks of the key in every limit of the rules, of all kinds (R10,
// R12).
func (m *Memory) reset(p *engine.Compiled, k *engine.Key) {
	limits := m.ofAllKinds(p)
	c := &claim{records: make([]record, len(limits))}
	defer putBuffer(m.name(c, limits, k))
	c.locks = c.shards()
	m.table.Lock(c.locks)
	defer m.release(c)
	for i := range c.records {
		r := &c.records[i]
		if r.slot = r.shard.Lookup(r.key, r.text); r.slot != nil {
			r.slot.Lock()
			r.shard.Remove(&m.table, r.key, r.slot)
			r.slot = nil
		}
		if r.block = r.shard.BlockOf(r.key, r.text); r.block != nil {
			m.removeBlock(r)
		}
	}
	if m.journal != nil { // the journal may have histories that a sweep has removed
		r := m.newReport(m.now(), false)
		for i := range c.records {
			r.add(Remove, c.records[i].limit, c.records[i].text)
		}
		r.send()
	}
}
