package memory

import (
	"time"

	"github.com/weirlimit/weir/engine"
)

// refund takes back up to n units of the entry granted at instant at (R10). It returns the
// units and the instant of its decision. If full is set there is no room to remember the
// refund, so one that would take units fails. name is that of the operation to remember, if
// it is one.
func (m *Memory) refund(p *engine.Compiled, k *engine.Key, at, n int64, when moment, full bool, name string) (took, decided int64, err error) {
	b := m.Rules(p)
	c := &claim{records: make([]record, len(b.limits)), at: when}
	defer putBuffer(m.name(c, b.limits, k))
	if full || !m.tryHold(c) {
		m.hold(c, false)
	}
	defer m.release(c)
	if err := m.storeCopies(c); err != nil {
		return 0, 0, err
	}
	for i := range c.records {
		r := &c.records[i]
		if full {
			r.h, r.arena = r.h.Clone(r.arena)
		}
		took = max(took, r.refund(at, n, c.now))
	}
	if took == 0 || full {
		c.forget()
		if took > 0 {
			return 0, c.now, m.fullOfKeys
		}
		return 0, c.now, nil
	}
	for i := range c.records {
		if r := &c.records[i]; r.corrected { // so far on a copy (R2)
			r.correct()
			r.refund(at, n, c.now)
			r.slot.SetVirtual(when.virtual())
		}
	}
	if m.journal != nil {
		r := m.newReport(c.now, when.virtual())
		if r.refunded(k, c.records); name != "" {
			r.remembered(p, name, engine.Refund, n, at, &engine.Result{Granted: took, At: time.UnixMicro(c.now)})
		}
		r.send()
	}
	return took, c.now, nil
}

// refund takes up to n units back from the entry granted at instant at, or from the oldest
// ones, and returns their number. No other entry changes: a refund does not store its
// instant, so a later decision may be at an earlier one (R2), at which older entries still
// count.
func (r *record) refund(at, n, now int64) int64 {
	if r.slot == nil || r.limit.cost > 0 && !r.limit.holds { // a cost of its own stays: the attempt was made (R10)
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

// count returns the units recorded in the last microseconds of a limit (R11).
func (m *Memory) count(call *engine.Call, at moment) int64 {
	var records [1]record
	c := &claim{records: records[:], at: at}
	defer putBuffer(m.name(c, m.Rules(call.Rules).limits[call.Limit:call.Limit+1], &call.Key))
	if !m.tryHold(c) {
		m.hold(c, false)
	}
	defer m.release(c)
	r := &records[0]
	cutoff := c.now - call.From
	if k := call.Rules.Limits[call.Limit].Kind; k == engine.Fixed || k == engine.FixedFromFirst {
		cutoff = r.rule.Cutoff(c.now)
	}
	recorded, _ := r.h.Used(r.arena, cutoff)
	return recorded
}

// reset removes the histories of the key in every limit of the rules, of all kinds (R12).
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
	}
	if m.journal != nil { // it may have histories that a sweep has removed
		r := m.newReport(m.now(), false)
		for i := range limits {
			r.add(Remove, &limits[i], k)
		}
		r.send()
	}
}
