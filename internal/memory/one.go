package memory

import (
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

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
	if slot = s.Confirm(slot, key); slot == nil || !slot.TryLock(key) {
		return false
	}
	h := &slot.History
	now := max(raw, h.Last) // R2
	var used, front int64
	known := s.Has(slot, key, k.Value(0)) && now-raw < window.Step
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
			m.reportOne(l, k, now, virtual)
		}
	} else {
		d.Limit = l.name
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
func (m *Memory) reportOne(l *limitRules, k *engine.Key, now int64, virtual bool) {
	r := m.newReport(now, virtual)
	r.appended(l, k, now, 1, now-l.Window)
	r.send()
}
