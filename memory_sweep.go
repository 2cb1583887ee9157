package weir

import (
	"fmt"

	"github.com/weirlimit/weir/internal/window"
)

const (
	// A sweep looks at sweepSlots slots every sweepEvery recordings in a shard and
	// with every new key, so that memory follows the histories that count (R13).
	sweepEvery = 32
	sweepSlots = 4

	// virtualSlack is how long histories in the caller's own time outlive their
	// window there, in microseconds: traces may run back (R13).
	virtualSlack = 3600 * 1_000_000

	// reclaimSlots is how many slots a caller who finds the engine full looks at.
	reclaimSlots = 4096
)

// tend sweeps a little further now and then, and whenever a key was added. Only a
// decision that has recorded units calls it: peeks and refusals forget nothing (R4).
// No record may be in use.
func (s *shard) tend(m *Memory, now int64, virtual bool) {
	if s.tick++; s.tick%sweepEvery == 0 || s.added {
		s.added = false
		s.sweep(m, now, virtual, sweepSlots)
	}
}

// sweep forgets the records that no longer count among the next n slots, and
// returns how many those were. Histories in the caller's time are only measured
// by such a time, those on the engine's clock only by that.
func (s *shard) sweep(m *Memory, now int64, virtual bool, n int) (forgotten int) {
	if !virtual && now < s.quiet {
		return 0
	}
	retain := *m.retain.Load()
	for ; n > 0 && len(s.index) > 0; n-- {
		if s.hand >= len(s.index) {
			s.endPass(m)
			continue
		}
		slot := s.index[s.hand]
		if slot == 0 {
			s.hand++
			continue
		}
		r := s.records.At(uint32(slot))
		expiry := r.expiry(retain)
		if r.virtual == virtual && expiry <= now {
			s.remove(m, s.hand)
			forgotten++
			continue
		}
		if !r.virtual {
			s.soonest = min(s.soonest, expiry)
		}
		s.hand++
	}
	if forgotten > 0 && s.records.Len() == 0 {
		s.release(m)
	}
	return forgotten
}

// release gives back what an empty shard holds.
func (s *shard) release(m *Memory) {
	m.budget.Give(len(s.index) * slotSize)
	s.index, s.scratch = nil, nil
	s.records.Release(recordSize, &m.budget)
	s.arena.Release()
	s.hand, s.soonest = 0, window.Forever
}

// expiry is the instant from which the record may be forgotten.
func (r *record) expiry(retain []int64) int64 {
	e := max(r.End, r.Last) + retain[r.limit] // Last too: the gap counts from it
	if r.virtual {
		e += virtualSlack
	}
	return e
}

// endPass begins a new pass over the index, after giving back an index that has
// become far too large. Until the soonest expiry it saw, looking is in vain.
func (s *shard) endPass(m *Memory) {
	s.hand = 0
	s.quiet, s.soonest = s.soonest, window.Forever
	if size := s.records.Len()*2 + 8; size*4 < len(s.index) {
		s.resizeIndex(m, size)
	}
}

// wake takes back what passes have concluded, for a record that may expire at
// that instant already, or that the present pass may miss.
func (s *shard) wake(expiry int64) {
	s.quiet = min(s.quiet, expiry)
	s.soonest = min(s.soonest, expiry)
}

// grown notes that a record was added that expires at that instant.
func (s *shard) grown(expiry int64) {
	s.wake(expiry)
	s.added = true
}

// sweepSome forgets what no longer counts among at most n slots of the shard,
// which is not locked. It returns how many slots it looked at; with fewer than n
// it has been round the whole shard.
func (s *shard) sweepSome(m *Memory, now int64, virtual bool, n int) (forgotten, looked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !virtual && now < s.quiet {
		return 0, 0
	}
	looked = min(n, len(s.index)+1) // one step ends the pass
	return s.sweep(m, now, virtual, looked), looked
}

// makeRoom looks for keys that no longer count: in the shards where room is
// needed, whose places can be used again at once, and then in the others by
// turns, for the bytes they give back. It reports whether it found any, or whoever
// it waited for. No lock may be held.
func (m *Memory) makeRoom(sites []site, now int64, virtual bool) bool {
	before := m.reclaimed.Load()
	m.reclaim.Lock()
	defer m.reclaim.Unlock()
	if m.reclaimed.Load() != before {
		return true
	}
	found := 0
	for i := range sites {
		n, _ := sites[i].shard.sweepSome(m, now, virtual, reclaimSlots)
		found += n
	}
	for turn, left := 0, reclaimSlots; turn < shardCount && left > 0; turn++ {
		n, looked := m.shards[m.hand].sweepSome(m, now, virtual, left)
		found += n
		if left -= looked; left > 0 {
			m.hand = (m.hand + 1) % shardCount
		}
	}
	found += m.known.forgetSome(m, now, virtual, reclaimSlots)
	m.reclaimed.Add(int64(found))
	return found > 0
}

// Sweep forgets everything that no longer counts on the engine's clock, a slice
// of a shard at a time, and returns how many histories and operations that were.
// Calling it is optional: recordings sweep a little each. It is for a program that
// wants its memory back while nothing is recorded.
func (m *Memory) Sweep() (forgotten int) {
	const slice = 1024
	now := m.now()
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		left := 2*len(s.index) + 1 // a step for each slot, for each record that goes, and for the end of the pass
		s.hand, s.soonest, s.quiet = 0, window.Forever, 0
		for ; left > slice; left -= slice {
			forgotten += s.sweep(m, now, false, slice)
			s.mu.Unlock() // let others in
			s.mu.Lock()
		}
		forgotten += s.sweep(m, now, false, left)
		s.mu.Unlock()
	}
	return forgotten + m.known.forget(m, now)
}

// makeErrors makes the errors at the caps in advance: a flood of new keys at a cap
// must not fill the heap with errors.
func (m *Memory) makeErrors() {
	m.fullOfKeys = fmt.Errorf("%w: it holds as many keys as its MaxKeys, %d, allow, and all of them still count; wait, or raise the cap",
		ErrFull, m.maxKeys)
	m.fullOfBytes = fmt.Errorf("%w: it holds as many bytes as its MaxBytes, %d, allow, and all keys still count; wait, or raise the cap",
		ErrFull, m.budget.most)
}
