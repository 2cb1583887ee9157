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
	b := m.compiled(p)
	slots := make([]slot, len(b.limits))
	virtual := when.virtual()
	_, now, locks := m.lockSlots(b.limits, k, slots, when)
	defer m.unlock(slots, locks)
	if err := m.reserveCorrections(slots); err != nil {
		return 0, 0, err
	}
	for i := range slots {
		s := &slots[i]
		if full {
			s.h, s.arena = s.h.Clone(s.arena)
		}
		took = max(took, s.refund(at, n, now))
	}
	switch {
	case took == 0:
		return 0, now, nil
	case full:
		return 0, now, m.fullOfKeys
	}
	for i := range slots {
		if s := &slots[i]; s.corrected { // so far on a copy (R2)
			m.correct(s, now, virtual)
			s.refund(at, n, now)
		}
	}
	if m.journal != nil {
		r := m.newReport(now, virtual)
		if r.refunded(k, slots); name != "" {
			r.remembered(p, name, engine.Refund, n, at, &engine.Result{Granted: took, At: time.UnixMicro(now)})
		}
		r.send()
	}
	return took, now, nil
}

// refund takes up to n units back from the entry granted at instant at, or from the oldest
// ones, and returns their number. No other entry changes: a refund does not store its
// instant, so a later decision may be at an earlier one (R2), at which older entries still
// count.
func (s *slot) refund(at, n, now int64) int64 {
	if s.limit.cost > 0 && !s.limit.holds { // a cost of its own stays: the attempt was made (R10)
		return 0
	}
	if s.rule.Rate != 0 {
		s.took = s.h.GiveBack(s.rule.Refill, at, at == engine.Oldest, now, n)
		return s.took
	}
	cutoff := s.rule.Cutoff(now)
	if s.end, s.cutoff = at, cutoff; at == engine.Oldest {
		s.took = s.h.RefundOldest(s.arena, cutoff, s.limit.units(n))
	} else {
		s.end = s.h.Holder(s.rule, at)
		s.took = s.h.Refund(s.arena, s.end, cutoff, s.limit.units(n))
	}
	return min(n, s.took)
}

// count returns the units recorded in the last microseconds of a limit (R11).
func (m *Memory) count(c *engine.Call, at moment) int64 {
	var slots [1]slot
	_, now, locks := m.lockSlots(m.compiled(c.Rules).limits[c.Limit:c.Limit+1], &c.Key, slots[:], at)
	defer m.unlock(slots[:], locks)
	s := &slots[0]
	cutoff := now - c.From
	if k := c.Rules.Limits[c.Limit].Kind; k == engine.Fixed || k == engine.FixedFromFirst {
		cutoff = s.rule.Cutoff(now)
	}
	recorded, _ := s.h.Used(s.arena, cutoff)
	return recorded
}

// reset removes the histories of the key in every limit of the rules, of all kinds (R12).
func (m *Memory) reset(p *engine.Compiled, k *engine.Key) {
	limits := m.ofAllKinds(p)
	slots := make([]slot, len(limits))
	locks := m.locate(limits, k, slots)
	m.table.Lock(locks)
	defer m.unlock(slots, locks)
	for i := range slots {
		s := &slots[i]
		if s.load(k); s.ref != 0 {
			s.shard.Remove(&m.table, s.tag, s.ref)
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
