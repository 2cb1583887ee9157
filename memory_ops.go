package weir

import (
	"context"

	"github.com/weirlimit/weir/internal/window"
)

// Refund takes back up to n units of the entry granted at instant at (R10).
func (m *Memory) Refund(_ context.Context, p *Plan, k Key, at, n, now int64) (int64, error) {
	b := m.binding(p)
	sites := make([]site, len(b.limits))
	virtual := now != Now
	now, locks := m.visit(b.limits, &k, sites, now)
	defer m.unlock(locks)
	if err := m.reserveCorrections(sites); err != nil {
		return 0, err
	}
	var most int64
	for i := range sites {
		s := &sites[i]
		if s.limit.cost == 0 { // a cost of its own stays: the attempt was made (R10)
			cutoff := now - s.limit.Window
			most = max(most, s.h.Refund(s.arena, s.refunded(at, cutoff), cutoff, n))
		}
	}
	if most == 0 {
		return 0, nil
	}
	for i := range sites {
		sites[i].rewrite(b.mode, at, n, now, virtual)
	}
	return most, nil
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

// rewrite brings the record up to what a refund at instant now has found: where
// that was on a copy, because the clock was corrected, it is done again (R2), and
// as with every write, what no longer counts goes (R4).
func (s *site) rewrite(mode window.Mode, at, n, now int64, virtual bool) {
	if s.ref == 0 {
		return
	}
	cutoff := now - s.limit.Window
	if s.corrected {
		s.correct(now, virtual)
		if s.limit.cost == 0 {
			s.h.Refund(s.arena, s.refunded(at, cutoff), cutoff, n)
		}
	}
	used, from := s.h.Used(s.arena, cutoff)
	s.h.Prune(s.arena, cutoff, used, from)
	if !virtual {
		s.shard.pruned = max(s.shard.pruned, now)
	}
	if mode == window.CountDenied {
		s.h.Cap(s.arena, s.limit.Max)
	}
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
