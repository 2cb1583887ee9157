package keytable

import "github.com/weirlimit/weir/internal/window"

const (
	// A sweep looks at sweepSlots slots with one in SweepEvery recordings and with every
	// new key, so that memory follows the histories that count (R13).
	SweepEvery = 32
	sweepSlots = 4

	// VirtualSlack is the time that histories at instants of callers outlive their
	// window, in microseconds of that time: traces may run back (R13).
	VirtualSlack = 3600 * 1_000_000

	// reclaimSlots is the number of slots that one Reclaim looks at.
	reclaimSlots = 4096

	forever = window.Forever
)

// Recorded notes that units were recorded in a record, or that its clock was corrected
// (R2). virtual reports whether that was at an instant that the caller passed.
func (s *Shard) Recorded(t *Table, r *Record, isNew, virtual bool) {
	sooner := r.Virtual() && !virtual
	r.setVirtual(virtual)
	if isNew || sooner {
		s.wake(r.expiry(*t.retain.Load()))
		s.added = true
	}
}

// Corrected notes that the clock of a record was corrected (R2): it may expire sooner
// than before.
func (s *Shard) Corrected(r *Record, virtual bool) {
	r.setVirtual(virtual)
	s.wake(0)
}

// wake takes back the conclusion of passes, for a record that may expire at that instant
// already or that the present pass may miss.
func (s *Shard) wake(expiry int64) {
	s.quiet = min(s.quiet, expiry)
	s.soonest = min(s.soonest, expiry)
}

// SweepStep sweeps a few slots now and then, and whenever a key was added. Only a
// decision that has recorded units calls it: peeks and denials remove no history (R4).
// The caller has locked the shard, and no record. now is an instant of callers if virtual is set,
// otherwise of the engine's clock.
func (s *Shard) SweepStep(t *Table, now int64, virtual bool) {
	if s.added || SweepDue(now) {
		s.added = false
		s.sweep(t, now, virtual, sweepSlots)
	}
}

// SweepDue reports whether a decision at now sweeps: one instant in SweepEvery. A count would
// be one more cache line that all callers change.
func SweepDue(now int64) bool {
	const odd = 0x9e3779b97f4a7c15 // 2^64 / golden ratio, so that instants at equal distances are spread
	return uint64(now)*odd>>32%SweepEvery == 0
}

// sweep removes the expired records among the next n slots and returns their number.
// Histories at instants of callers expire by such an instant alone, the others by the
// engine's clock alone.
func (s *Shard) sweep(t *Table, now int64, virtual bool, n int) (removed int) {
	if !virtual && now < s.quiet {
		return 0
	}
	retain := *t.retain.Load()
	for ; n > 0 && len(s.parts) > 0; n-- {
		p := s.parts[s.nextPart]
		b := &p.array[s.nextBlock]
		if s.hand >= len(b.slots) {
			s.endBlock(t, p)
			continue
		}
		slot := b.slots[s.hand]
		if slot == 0 {
			s.hand++
			continue
		}
		r := s.records.At(uint32(slot))
		r.Lock()
		expiry := r.expiry(retain)
		if r.Virtual() == virtual && expiry <= now {
			s.removeSlot(t, b, s.hand)
			removed++
			continue
		}
		if !r.Virtual() {
			s.soonest = min(s.soonest, expiry)
		}
		r.Unlock()
		s.hand++
	}
	if removed > 0 && s.records.Len() == 0 {
		s.release(t)
	}
	return removed
}

// Expired reports whether the record may be removed at now on the engine's clock. windows
// is from Groups.
func (r *Record) Expired(windows []int64, now int64) bool {
	return !r.Virtual() && r.expiry(windows) <= now
}

// expiry is the instant from which the record may be removed.
func (r *Record) expiry(retain []int64) int64 {
	e := max(r.End, r.Last) + retain[r.group] // Last too: MinInterval counts from it
	if r.Virtual() {
		e += VirtualSlack
	}
	return e
}

// endBlock goes on with the next block, or begins a new pass over the index. Until the soonest
// expiry of a pass, the next one would find nothing.
func (s *Shard) endBlock(t *Table, p *part) {
	s.hand = 0
	if s.nextBlock++; s.nextBlock < int(p.count) {
		return
	}
	s.nextBlock = 0
	for s.nextPart++; s.nextPart < len(s.parts) && s.nextPart != int(s.parts[s.nextPart].low); {
		s.nextPart++
	}
	if s.nextPart == len(s.parts) {
		s.nextPart = 0
		s.quiet, s.soonest = s.soonest, forever
	}
	s.shrink(t, p)
}

// release frees the memory of an empty shard.
func (s *Shard) release(t *Table) {
	t.Give(s.indexBytes())
	s.parts, s.Scratch = nil, nil
	s.index.Store(nil)
	s.records.Release(recordSize, t)
	s.Arena.Release()
	s.nextPart, s.nextBlock, s.hand, s.soonest = 0, 0, 0, forever
}

// Reclaim removes expired histories and returns their number: first in a set of shards,
// with places that can be used again at once, and then in the others by turns, for the bytes
// they give back. No shard may be locked by the caller, and only one caller at a time may
// reclaim.
func (t *Table) Reclaim(first uint64, now int64, virtual bool) (removed int) {
	for i := range t.shards {
		if first>>i&1 != 0 {
			n, _ := t.shards[i].sweepSome(t, now, virtual, reclaimSlots)
			removed += n
		}
	}
	for turn, left := 0, reclaimSlots; turn < shardCount && left > 0; turn++ {
		n, looked := t.shards[t.next].sweepSome(t, now, virtual, left)
		removed += n
		if left -= looked; left > 0 {
			t.next = (t.next + 1) % shardCount
		}
	}
	return removed
}

// sweepSome locks the shard and sweeps at most n of its slots. It returns the number of
// slots it looked at; fewer than n mean that it saw the whole shard.
func (s *Shard) sweepSome(t *Table, now int64, virtual bool, n int) (removed, looked int) {
	s.Lock()
	defer s.Unlock()
	if !virtual && now < s.quiet {
		return 0, 0
	}
	looked = min(n, s.steps())
	return s.sweep(t, now, virtual, looked), looked
}

// Sweep removes all histories that have expired on the engine's clock and returns their
// number. It unlocks a shard now and then, so that decisions go on.
func (t *Table) Sweep(now int64) (removed int) {
	const slice = 1024
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		left := 2 * s.steps() // a step for each slot, for each record that goes, and for the end of each block
		s.nextPart, s.nextBlock, s.hand, s.soonest, s.quiet = 0, 0, 0, forever, 0
		for ; left > slice; left -= slice {
			removed += s.sweep(t, now, false, slice)
			s.Unlock()
			s.Lock()
		}
		removed += s.sweep(t, now, false, left)
		s.Unlock()
	}
	return removed
}
