package keytable

import (
	"sync"

	"github.com/weirlimit/weir/internal/slab"
	"github.com/weirlimit/weir/internal/window"
)

// Shard is the part of the keys under one lock: records in a slab, found through an
// open-addressing index of 8-byte slots. All methods need the lock. The fields that
// each decision reads come first, within two cache lines.
type Shard struct {
	sync.Mutex        // protects the following
	steps      uint32 // calls of SweepStep
	added      bool   // a record was added since the last sweep

	// index holds tag << 32 | record, 0 = free, in probe order: a slot stands at
	// home(tag) or behind it with no free slot between. Its size is no power of two, so
	// that it can grow by a quarter and stay well filled.
	index   []uint64
	records slab.Slab[Record, *Record]
	Arena   window.Arena // the logs of the histories, and long keys
	Scratch []byte       // for the caller, such as to encode a key

	hand    int   // next slot to sweep
	soonest int64 // earliest expiry that the present pass has seen
	quiet   int64 // no history on the engine's clock expires before this instant

	_ [56]byte // fills the last cache line
}

const slotSize = 8

// home is the slot at which the search for a tag begins: tag scaled to the size of the
// index.
func home(tag uint32, size int) int {
	return int(uint64(tag) * uint64(size) >> 32)
}

// Find returns the record of a key in a group, or 0. tag is the low half of the hash of
// both.
func Find[K string | []byte](s *Shard, tag, group uint32, key K) uint32 {
	size := len(s.index)
	if size == 0 {
		return 0
	}
	for i := home(tag, size); ; {
		slot := s.index[i]
		if slot == 0 {
			return 0
		}
		if uint32(slot>>32) == tag {
			r := s.records.At(uint32(slot))
			if r.group == group && int(r.size) == len(key) {
				if len(key) <= inlineKey {
					if string(r.key[:len(key)]) == string(key) {
						return uint32(slot)
					}
				} else if longKeyIs(&s.Arena, r.longKey(), key) {
					return uint32(slot)
				}
			}
		}
		if i++; i == size {
			i = 0
		}
	}
}

// At returns a record. The pointer is valid until the next Insert.
func (s *Shard) At(ref uint32) *Record { return s.records.At(ref) }

// Reserve reports whether that many records and chunks can be added to the shard, which
// is one of t. It adds none.
func (s *Shard) Reserve(t *Table, records, chunks int) bool {
	if chunks > 0 && !s.Arena.Reserve(chunks) {
		return false
	}
	if records == 0 {
		return true
	}
	return s.records.Reserve(records, recordSize, t) && s.growIndex(t, records)
}

// Insert adds a record with an empty history for a key that has none. Reserve has made
// room for it and for KeyChunks of the key.
func Insert[K string | []byte](s *Shard, tag, group uint32, key K) uint32 {
	ref := s.records.Alloc()
	r := s.records.At(ref)
	r.History = window.Empty
	r.group = group
	setKey(r, &s.Arena, key)
	s.place(uint64(tag)<<32 | uint64(ref))
	return ref
}

// place puts a slot where Find will look for it.
func (s *Shard) place(slot uint64) {
	size := len(s.index)
	i := home(uint32(slot>>32), size)
	for s.index[i] != 0 {
		if i++; i == size {
			i = 0
		}
	}
	s.index[i] = slot
}

// growIndex makes the index large enough for n more records: at most three quarters full.
func (s *Shard) growIndex(t *Table, n int) bool {
	size := len(s.index)
	for 4*(s.records.Len()+n) > 3*size {
		size += size/4 + 8
	}
	return size == len(s.index) || s.resizeIndex(t, size)
}

func (s *Shard) resizeIndex(t *Table, size int) bool {
	if !t.Take(size * slotSize) {
		return false
	}
	old := s.index
	s.index = make([]uint64, size)
	for _, slot := range old {
		if slot != 0 {
			s.place(slot)
		}
	}
	t.Give(len(old) * slotSize)
	s.hand, s.soonest = 0, forever
	return true
}

// Remove removes a record and its history. It counts one key less.
func (s *Shard) Remove(t *Table, tag, ref uint32) {
	s.wake(0) // slots move, so the present pass may miss one
	slot := uint64(tag)<<32 | uint64(ref)
	i := home(tag, len(s.index))
	for s.index[i] != slot {
		if i++; i == len(s.index) {
			i = 0
		}
	}
	s.removeSlot(t, i)
}

// removeSlot removes the record of slot i. Later slots of the run move up, so that a
// search never ends early; slot i may hold another record afterwards.
func (s *Shard) removeSlot(t *Table, i int) {
	ref := uint32(s.index[i])
	r := s.records.At(ref)
	r.freeKey(&s.Arena)
	r.History.Free(&s.Arena)
	s.records.Free(ref, recordSize, t)
	t.GiveKeys(1)
	size := len(s.index)
	for j := i; ; {
		if j++; j == size {
			j = 0
		}
		slot := s.index[j]
		if slot == 0 {
			s.index[i] = 0
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
		s.index[i] = slot
		i = j
	}
}
