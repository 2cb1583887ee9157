package weir

import (
	"hash/maphash"
	"time"

	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// held is one limit of allowSeveral: its record, and the state that the attempt found.
type held struct {
	shard  *keytable.Shard
	record *keytable.Record
	room   int64 // units that fitted; of a bucket it can be below 0
	front  int64 // of a window: the end of the oldest entry that counts, or now
}

// allowSeveral decides one unit of plain windows and buckets under the locks of their records
// alone. It takes the steps of decideSlots, by the same functions of internal/window. That
// saves a tenth of a decision under two or four limits (BenchmarkAllow).
//
// For each rarer case it reports false and changes nothing, as allowSimple does. Then
// decideSlots decides.
func (m *Memory) allowSeveral(b *memoryPlan, k *Key, at moment, d *Decision) bool {
	// The places stand on the stack, as in handle.
	if n := len(b.limits); n <= 4 {
		var places [4]held
		return m.allowHeld(b, k, places[:n], at, d)
	}
	var places [MaxLimits]held
	return m.allowHeld(b, k, places[:len(b.limits)], at, d)
}

func (m *Memory) allowHeld(b *memoryPlan, k *Key, places []held, at moment, d *Decision) bool {
	raw, virtual := m.instant(at), at.virtual()
	if !m.candidates(b.limits, k, places) || !lockHeld(b.limits, k, places, virtual) {
		return false
	}
	now, known := decideHeld(b.limits, places, raw, d)
	recorded := known && d.Allowed
	if recorded && m.journal != nil {
		m.append(b.plan, k, ChangeRecord, now, 1, virtual, false, nil)
	}
	for i := range places {
		places[i].record.Unlock()
	}
	if recorded && keytable.SweepDue(raw) {
		for i := range places {
			s := places[i].shard
			s.Lock()
			s.SweepStep(&m.table, raw, virtual)
			s.Unlock()
		}
	}
	return known
}

// candidates finds the records that lockHeld locks, without any lock. All are found before
// the first is locked, so that the processor fetches them side by side.
func (m *Memory) candidates(limits []memoryLimit, k *Key, places []held) bool {
	hashed, value := -1, uint64(0) // as in locate
	for i := range places {
		l, h := &limits[i], &places[i]
		var hash uint64
		switch sole := l.sole; {
		case sole < 0:
			hash = m.hash(l, k)
		case sole != hashed:
			hashed, value = sole, maphash.String(m.seed, k.value(sole))
			fallthrough
		default:
			hash = l.mix(value)
		}
		h.shard = m.table.Shard(hash)
		if h.record = h.shard.Candidate(uint32(hash)); h.record == nil {
			return false
		}
	}
	return true
}

// lockHeld locks the candidates, if each is the record of its limit. It waits only while it
// holds no record: if another caller holds one, lockHeld unlocks all and begins anew with
// that one. So callers never wait for each other in a circle, in any order of the records.
// After a few turns it gives up.
func lockHeld(limits []memoryLimit, k *Key, places []held, virtual bool) bool {
	first := 0
	for range 4 {
		i, result := first, keytable.Acquired
		for n := range places {
			if i = first + n; i >= len(places) {
				i -= len(places)
			}
			if result = limits[i].lock(&places[i], k, virtual, n == 0); result != keytable.Acquired {
				break
			}
		}
		if result == keytable.Acquired {
			return true
		}
		for ; first != i; first = (first + 1) % len(places) {
			places[first].record.Unlock()
		}
		if result == keytable.NotFound {
			return false
		}
	}
	return false
}

// lock locks the record of a place if it is that of the key.
func (l *memoryLimit) lock(h *held, k *Key, virtual, wait bool) keytable.Result {
	if l.sole >= 0 {
		return keytable.LockIf(h.shard, h.record, l.group, k.value(l.sole), virtual, wait)
	}
	var room [128]byte // Shard.Scratch needs the lock of the shard
	size := 0
	for _, i := range l.by {
		size += 2 + len(k.value(i)) // lengths below 1<<14 take two bytes
	}
	if size > len(room) {
		return keytable.NotFound
	}
	return keytable.LockIf(h.shard, h.record, l.group, l.encode(room[:0], k), virtual, wait)
}

// decideHeld decides one unit of the limits with locked records, and records it in all
// or in none (R7). It returns the instant of the decision (R2), or reports false.
func decideHeld(limits []memoryLimit, places []held, raw int64, d *Decision) (now int64, ok bool) {
	now = raw
	for i := range places {
		r := places[i].record
		if r.Behind(raw) || r.Rate() != limits[i].Rate {
			return now, false
		}
		now = max(now, r.Last)
	}
	room := int64(window.Forever)
	for i := range places {
		h := &places[i]
		if !h.look(&limits[i], now) {
			return now, false
		}
		room = min(room, h.room)
	}
	var granted, wait, reset int64
	if room > 0 {
		granted = 1
	}
	for i := range places {
		w, r := places[i].finish(&limits[i], now, granted)
		if w > wait {
			if wait = w; granted == 0 {
				d.Limit = limits[i].name
			}
		}
		reset = max(reset, r)
	}
	d.Allowed, d.Granted, d.Remaining = granted > 0, granted, room-granted
	d.RetryAfter, d.ResetAfter, d.At = span(wait), span(reset), time.UnixMicro(now)
	return now, true
}

// look reads the room for one unit, or reports false.
func (h *held) look(l *memoryLimit, now int64) bool {
	if l.pours {
		h.room = l.Max - h.record.Missing(l.Refill, now)
		return true
	}
	used, front, ok := h.record.One(&h.shard.Arena, l.Max, now-l.Window, now, false)
	h.room, h.front = l.Max-used, front
	return ok
}

// finish records the granted unit, if there is one, and returns the limit's own waits.
func (h *held) finish(l *memoryLimit, now, granted int64) (wait, reset int64) {
	r := h.record
	if l.pours {
		if granted > 0 {
			r.Take(&l.Rule, now, granted, false)
		}
		return r.Waits(&l.Rule, now, 1, l.Max-h.room+granted)
	}
	cutoff := now - l.Window
	if granted > 0 {
		r.One(&h.shard.Arena, l.Max, cutoff, now, true)
	}
	if h.room == granted {
		wait = h.front - cutoff
	}
	return wait, r.End - cutoff
}
