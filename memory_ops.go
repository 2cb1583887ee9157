package weir

import (
	"context"
	"time"
)

// Refund takes back up to n units of the entry granted at instant at (R10).
func (m *Memory) Refund(_ context.Context, p *Plan, k Key, at, n, now int64) (int64, error) {
	took, _, err := m.refund(p, &k, at, n, momentOf(now), false, "")
	return took, err
}

// refund is Refund that returns the instant of its decision, too. If full is set there is
// no room to remember the refund, so one that would take units fails. name is
// that of the operation to remember, if it is one.
func (m *Memory) refund(p *Plan, k *Key, at, n int64, when moment, full bool, name string) (took, decided int64, err error) {
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
		c := Change{Kind: ChangeRefund, Plan: p, Key: *k, At: now, Virtual: virtual, Units: n, From: at}
		if name != "" {
			c.Once = remembered(p, name, OpRefund, n, &Decision{Granted: took, At: time.UnixMicro(now)})
		}
		m.journal.Append(&c)
	}
	return took, now, nil
}

// refund takes up to n units back from the entry granted at instant at, and returns their
// number. No other entry changes: a refund does not store its instant, so a later decision
// may be at an earlier one (R2), at which older entries still count.
func (s *slot) refund(at, n, now int64) int64 {
	if s.limit.cost > 0 && !s.limit.holds { // a cost of its own stays: the attempt was made (R10)
		return 0
	}
	if s.rule.Rate != 0 {
		return s.h.GiveBack(s.rule.Refill, at, at == Oldest, now, n)
	}
	cutoff := s.rule.Cutoff(now)
	return min(n, s.h.Refund(s.arena, s.refunded(at, cutoff), cutoff, s.limit.units(n)))
}

// refunded is the end of the entry that a refund takes from: the entry granted at an
// instant, or the oldest that counts; cutoff if there is none.
func (s *slot) refunded(at, cutoff int64) int64 {
	if at != Oldest {
		return s.h.Holder(s.rule, at)
	}
	if used, _ := s.h.Used(s.arena, cutoff); used == 0 {
		return cutoff
	}
	return s.h.Leave(s.arena, cutoff, 1)
}

// Count returns the units recorded in the last microseconds of limit i (R11).
func (m *Memory) Count(_ context.Context, p *Plan, k Key, i int, last, now int64) (int64, error) {
	var slots [1]slot
	_, now, locks := m.lockSlots(m.compiled(p).limits[i:i+1], &k, slots[:], momentOf(now))
	defer m.unlock(slots[:], locks)
	s := &slots[0]
	cutoff := now - last
	if k := p.limits[i].Kind; k == Fixed || k == FixedFromFirst {
		cutoff = s.rule.Cutoff(now)
	}
	recorded, _ := s.h.Used(s.arena, cutoff)
	return recorded, nil
}

// Reset forgets the histories of the key in every limit of the plan (R10).
func (m *Memory) Reset(_ context.Context, p *Plan, k Key) error {
	m.reset(p, &k, m.journal)
	return nil
}

// reset removes the histories of the key in every limit of the plan, of all kinds (R12). It
// reports that to the journal, unless that is nil.
func (m *Memory) reset(p *Plan, k *Key, j Journal) {
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
	if j != nil {
		j.Append(&Change{Kind: ChangeReset, Plan: p, Key: *k, At: m.now()})
	}
}
