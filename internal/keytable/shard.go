package keytable

import (
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/slab"
	"github.com/weirlimit/weir/internal/window"
)

// Shard is the part of the keys under one lock: records in a slab, found through an
// open-addressing index of 8-byte slots. All methods but Acquire and AppendKey
// need the lock. The lock of a record, too, is needed for its history. A caller that has
// locked a record waits for no shard.
//
// The fields that Acquire reads come first. Decisions that need no lock of the shard change
// no field of these cache lines.
type Shard struct {
	index   atomic.Pointer[directory] // nil if there are no slots
	records slab.Slab[Record, *Record]
	Arena   window.Arena // the logs of the histories, and long keys

	sync.Mutex         // protects all but index
	added      bool    // a record was added since the last sweep
	parts      []*part // of the index, by the low bits of tags; some stand at several places
	Scratch    []byte  // for the caller, such as to encode a key

	nextPart  int   // of the index to sweep
	nextBlock int   // of that part
	hand      int   // the next slot of that block
	soonest   int64 // earliest expiry that the present pass has seen
	quiet     int64 // no history on the engine's clock expires before this instant

	_ [48]byte // up to a cache line
}

// Lock locks the shard. It looks at the lock for about a microsecond, as long as others need it,
// before the caller parks. A parked caller needs much longer if all processors are busy: it
// runs when the goroutine that unlocks the shard parks or yields.
func (s *Shard) Lock() {
	for range 100 {
		if s.TryLock() {
			return
		}
		for range 10 {
			nop()
		}
	}
	s.Mutex.Lock()
}

//go:noinline
func nop() {}

// Find returns the record of a key in a group, or 0. tag is the low half of the hash of
// both.
func Find[K string | []byte](s *Shard, tag, group uint32, key K) uint32 {
	slots := s.slots(tag)
	size := len(slots)
	if size == 0 {
		return 0
	}
	for i := home(tag, size); ; {
		slot := slots[i]
		if slot == 0 {
			return 0
		}
		if uint32(slot>>32) == tag {
			r := s.records.At(uint32(slot))
			if r.group == group && r.size() == len(key) && keyIs(r, &s.Arena, key) {
				return uint32(slot)
			}
		}
		if i++; i == size {
			i = 0
		}
	}
}

// Acquire returns the record of a key in a group, locked, or nil. It needs no lock. The
// shard may change meanwhile, so that Acquire misses a record; then the caller locks the
// shard and uses Find. isVirtual must be as the record's Virtual.
//
// The record that a slot leads to may have been removed, and may belong to another key by
// now. So group and key are compared under the lock of the record, which keeps it in place.
func (s *Shard) Acquire(tag, group uint32, key string, isVirtual bool) *Record {
	slots := s.slots(tag)
	size := len(slots)
	for i, n := home(tag, size), 0; n < size; n++ {
		slot := atomic.LoadUint64(&slots[i])
		if slot == 0 {
			return nil
		}
		if uint32(slot>>32) == tag {
			if r := s.records.Find(uint32(slot)); r != nil && r.lockAs(stateOf(len(key), isVirtual)) {
				if r.group == group && keyIs(r, &s.Arena, key) {
					return r
				}
				r.Unlock()
			}
		}
		if i++; i == size {
			i = 0
		}
	}
	return nil
}

// Visit calls visit with the records with the tags lo … hi-1; hi is at most 1<<32. It takes
// no lock of a record, for whose holder all callers of the shard would wait.
// Visits of all tags in several steps, between which the shard is unlocked, see each
// record that stays: records move in the index, and their tags do not change.
func (s *Shard) Visit(lo, hi uint64, visit func(*Record)) {
	for p := range s.eachPart {
		for i := range uint64(ranges) { // range i has the tags of which tag * ranges >> 32 is i
			first, end := (i<<32+ranges-1)/ranges, ((i+1)<<32+ranges-1)/ranges
			if first, end = max(first, lo), min(end, hi); first < end {
				s.visit(p.block(uint32(first)).slots, uint32(first), uint32(end-1), visit)
			}
		}
	}
}

// visit is Visit of the tags lo … hi of one range in one block.
func (s *Shard) visit(slots []uint64, lo, hi uint32, visit func(*Record)) {
	size := len(slots)
	i := home(lo, size)
	distance := home(hi, size) - i // to where the search for the last tag begins
	for n := range size {
		slot := slots[i]
		if tag := uint32(slot >> 32); slot != 0 && lo <= tag && tag <= hi {
			visit(s.records.At(uint32(slot)))
		}
		if slot == 0 && n >= distance {
			return
		}
		if i++; i == size {
			i = 0
		}
	}
}

// Len is the number of records.
func (s *Shard) Len() int { return s.records.Len() }

// At returns a record. The pointer is valid until it is removed.
func (s *Shard) At(ref uint32) *Record { return s.records.At(ref) }

// Reserve reports whether that many records and chunks can be added to the shard, which
// is one of t, and a record with that tag among them. It adds none.
func (s *Shard) Reserve(t *Table, tag uint32, records, chunks int) bool {
	if chunks > 0 && !s.Arena.Reserve(chunks) {
		return false
	}
	if records == 0 {
		return true
	}
	return s.records.Reserve(records, recordSize, t) && s.grow(t, tag, records)
}

// Insert adds a record with an empty history for a key that has none, and locks it. Reserve
// has made room for it and for KeyChunks of the key.
func Insert[K string | []byte](s *Shard, tag, group uint32, key K) uint32 {
	ref := s.records.Alloc()
	r := s.records.At(ref)
	r.History = window.Empty
	r.group = group
	setKey(r, &s.Arena, key)
	r.state.Store(stateOf(len(key), false) | locked)
	s.part(tag).block(tag).insert(uint64(tag)<<32 | uint64(ref))
	return ref
}

// Remove removes a record, which is locked, and its history. It counts one key less.
func (s *Shard) Remove(t *Table, tag, ref uint32) {
	s.wake(0) // slots move, so the present pass may miss one
	slot := uint64(tag)<<32 | uint64(ref)
	b := s.part(tag).block(tag)
	i := home(tag, len(b.slots))
	for b.slots[i] != slot {
		if i++; i == len(b.slots) {
			i = 0
		}
	}
	s.removeSlot(t, b, i)
}

// removeSlot removes the record of slot i of b, which is locked. Later slots of the run move
// up, so that a search never ends early; slot i may hold another record afterwards.
func (s *Shard) removeSlot(t *Table, b *block, i int) {
	ref := uint32(b.slots[i])
	r := s.records.At(ref)
	r.freeKey(&s.Arena)
	r.History.Free(&s.Arena)
	r.state.Store(0) // Acquire no longer locks it
	s.records.Free(ref, recordSize, t)
	t.GiveKeys(1)
	b.used--
	size := len(b.slots)
	for j := i; ; {
		if j++; j == size {
			j = 0
		}
		slot := b.slots[j]
		if slot == 0 {
			atomic.StoreUint64(&b.slots[i], 0)
			return
		}
		// The slot may move to i unless its home lies cyclically within (i, j].
		h := home(uint32(slot>>32), size)
		if i <= j {
			if i < h && h <= j {
				continue
			}
		} else if h > i || h <= j {
			continue
		}
		atomic.StoreUint64(&b.slots[i], slot)
		i = j
	}
}
