package keytable

import "math/bits"

const (
	// A sweep beside a recording leaves histories that expired less than sweepLate ago.
	// Otherwise a key that is used once a window would be removed and inserted all the time.
	sweepLate = 1_000_000

	// VirtualSlack is the time that histories at instants of callers outlive their
	// window, in microseconds of that time: traces may run back (R13).
	VirtualSlack = 3600 * 1_000_000

	// reclaimSlots is the most slots of others that one Reclaim looks at.
	reclaimSlots = 4096

	// reclaimRate bounds the slots by the microseconds since a Reclaim found nothing. Otherwise
	// a flood of new keys at a cap would cost a look at 4096 slots each (the attack in
	// bench/speed).
	reclaimRate = 4
)

// SweepStep sweeps a few slots. Only a decision that has recorded units calls it: peeks and
// denials remove no history (R4). The caller has locked the shard, and no slot. now is an
// instant of callers if isVirtual is set, otherwise of the engine's clock.
func (s *Shard) SweepStep(t *Table, now int64, isVirtual bool) {
	s.sweep(t, now-sweepLate, isVirtual, groupSlots)
}

// sweep removes the expired slots among the next n and returns their number. Histories at
// instants of callers expire by such an instant alone, the others by the engine's clock
// alone.
func (s *Shard) sweep(t *Table, now int64, isVirtual bool, n int) (removed int) {
	retain := *t.retain.Load()
	for n > 0 {
		d := s.directory.Load()
		if d == nil {
			return removed
		}
		b := d.block(s.hand)
		for ; s.handGroup < b.groups && n > 0; s.handGroup++ {
			for m := b.group(s.handGroup).Load() & highBits; m != 0; m &= m - 1 {
				i := bits.TrailingZeros64(m) / 8
				slot := b.slot(s.handGroup, i)
				slot.Lock()
				if slot.Virtual() == isVirtual && s.expiry(slot, retain) <= now {
					s.remove(t, b, s.handGroup, i)
					removed++
					continue
				}
				slot.Unlock()
			}
			n -= groupSlots
		}
		if s.handGroup >= b.groups {
			s.endBlock(t, d, b)
		}
	}
	return removed
}

// endBlock shrinks a block that was swept, and goes on with the next one. Blocks that were split
// are not joined: of a table that has shrunk, about a hundredth of its largest size stays until
// a shard is empty.
func (s *Shard) endBlock(t *Table, d *directory, b block) {
	state := b.state()
	low := s.hand
	depth := state.depth
	used := int(state.used)
	s.handGroup = 0
	s.hand = (low>>(32-depth) + 1) << (32 - depth) // 0 behind the last one, and with a sole block
	if s.used == 0 {
		s.release(t)
		return
	}
	if b.groups > 1 && 3*used < b.limit() {
		s.rebuild(t, d, low, depth, used/4)
	}
}

// Expired reports whether the slot may be removed at now on the engine's clock.
// The shard is locked.
func (s *Shard) Expired(t *Table, slot *Slot, now int64) bool {
	return !slot.Virtual() && s.expiry(slot, *t.retain.Load()) <= now
}

// expiry is the instant from which the slot may be removed.
func (s *Shard) expiry(slot *Slot, retain []int64) int64 {
	e := slot.Until()
	if !slot.IsBlock() {
		if list := s.Ahead(slot); list != nil {
			e = max(e, list.Until)
		}
		e = max(e, slot.Last) + retain[slot.Group()] // Last too: MinInterval counts from it
	}
	if slot.Virtual() {
		e += VirtualSlack
	}
	return e
}

// release frees the memory of an empty shard.
func (s *Shard) release(t *Table) {
	for b := range distinct(s.directory.Load().blocks) {
		t.freeBlock(b)
	}
	s.directory.Store(nil)
	s.Arena.Release()
	s.hand, s.handGroup = 0, 0
}

// Reclaim removes expired histories and returns their number. It begins with the shards in the
// set first, because the caller can use places there immediately. Then it goes through the
// shards by turns, for the bytes that they give back. The caller must have locked no shard, and
// only one caller at a time may reclaim.
func (t *Table) Reclaim(first uint64, now int64, isVirtual bool) (removed int) {
	vain := &t.vain
	if isVirtual {
		vain = &t.vainVirtual
	}
	most := reclaimSlots
	if now < *vain+reclaimSlots/reclaimRate {
		most = max(int(now-*vain)*reclaimRate, groupSlots)
	}
	for i := range t.shards {
		if first>>i&1 != 0 {
			n, _ := t.shards[i].sweepSome(t, now, isVirtual, most)
			removed += n
		}
	}
	for turn, left := 0, most; turn < shardCount && left > 0; turn++ {
		n, looked := t.shards[t.next].sweepSome(t, now, isVirtual, left)
		removed += n
		if left -= looked; left > 0 {
			t.next = (t.next + 1) % shardCount
		}
	}
	if removed == 0 {
		*vain = now
	}
	return removed
}

// sweepSome locks the shard and sweeps at most n of its slots. It returns the number of
// slots it looked at; fewer than n mean that it saw the whole shard.
func (s *Shard) sweepSome(t *Table, now int64, isVirtual bool, n int) (removed, looked int) {
	s.Lock()
	defer s.Unlock()
	looked = min(n, s.slots())
	return s.sweep(t, now, isVirtual, looked), looked
}

// slots is the number of slots of all blocks.
func (s *Shard) slots() (n int) {
	if d := s.directory.Load(); d != nil {
		for b := range distinct(d.blocks) {
			n += int(b.groups) * groupSlots
		}
	}
	return n
}

// Sweep removes all histories that have expired on the engine's clock and returns their
// number. It unlocks a shard now and then, so that decisions go on.
func (t *Table) Sweep(now int64) (removed int) {
	const slice = 1024
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		s.hand, s.handGroup = 0, 0
		for left := s.slots(); left > 0; left -= slice {
			removed += s.sweep(t, now, false, min(left, slice))
			s.Unlock()
			s.Lock()
		}
		s.Unlock()
	}
	return removed
}
