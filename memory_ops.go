package weir

import "context"

// Refund takes back up to n units of the entry granted at instant at (R10).
func (m *Memory) Refund(_ context.Context, p *Plan, k Key, at, n, now int64) (int64, error) {
	took, _, err := m.refund(p, &k, at, n, now, false)
	return took, err
}

// refund is Refund that returns the instant of its decision, too. If full is set, a
// refund that would take units fails, since there is no room to remember it.
func (m *Memory) refund(p *Plan, k *Key, at, n, now int64, full bool) (took, decided int64, err error) {
	b := m.binding(p)
	sites := make([]site, len(b.limits))
	virtual := now != Now
	now, locks := m.visit(b.limits, k, sites, now)
	defer m.unlock(locks)
	if err := m.reserveCorrections(sites); err != nil {
		return 0, 0, err
	}
	for i := range sites {
		s := &sites[i]
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
	for i := range sites {
		if s := &sites[i]; s.corrected { // so far on a copy (R2)
			s.correct(now, virtual)
			s.refund(at, n, now)
		}
	}
	return took, now, nil
}

// refund takes up to n units back from the entry granted at instant at, and returns
// how many. No other entry changes: a refund leaves no trace of its instant, so a
// later decision may be at an earlier one (R2), at which older entries still count.
func (s *site) refund(at, n, now int64) int64 {
	if s.limit.cost > 0 { // a cost of its own stays: the attempt was made (R10)
		return 0
	}
	cutoff := now - s.limit.Window
	return s.h.Refund(s.arena, s.refunded(at, cutoff), cutoff, n)
}

// refunded is the end of the entry that a refund takes from: of that granted at an
// instant, or of the oldest that counts; cutoff if there is none.
func (s *site) refunded(at, cutoff int64) int64 {
	if at != Oldest {
		return s.h.Holder(&s.limit.Rule, at)
	}
	if used, _ := s.h.Used(s.arena, cutoff); used == 0 {
		return cutoff
	}
	return s.h.Leave(s.arena, cutoff, 1)
}

// Count returns the units recorded in the last microseconds of limit i (R11).
func (m *Memory) Count(_ context.Context, p *Plan, k Key, i int, last, now int64) (int64, error) {
	var sites [1]site
	now, locks := m.visit(m.binding(p).limits[i:i+1], &k, sites[:], now)
	defer m.unlock(locks)
	recorded, _ := sites[0].h.Used(sites[0].arena, now-p.limits[i].Span(last))
	return recorded, nil
}

// Reset forgets the histories of the key in every limit of the plan (R10).
func (m *Memory) Reset(_ context.Context, p *Plan, k Key) error {
	sites := make([]site, len(p.limits))
	locks := m.locate(m.binding(p).limits, &k, sites)
	m.lock(locks)
	defer m.unlock(locks)
	for i := range sites {
		s := &sites[i]
		if s.load(&k); s.ref != 0 {
			s.shard.wake(0) // slots move, so the present pass may miss one
			s.shard.remove(m, s.shard.slotOf(s.tag, s.ref))
		}
	}
	return nil
}

// visit locks and loads the sites of a call that looks without asking, and
// returns the instant of the call. Where the clock was corrected the sites hold
// copies (R2).
func (m *Memory) visit(limits []memoryLimit, k *Key, sites []site, at int64) (now int64, locks uint64) {
	locks = m.locate(limits, k, sites)
	m.lock(locks)
	for i := range sites {
		sites[i].load(k)
	}
	return clamp(sites, m.read(at)), locks
}
