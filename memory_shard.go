package weir

import (
	"sync"

	"github.com/weirlimit/weir/internal/slab"
	"github.com/weirlimit/weir/internal/window"
)

// shard is a part of the keys under one lock: records in a slab, found through
// an open-addressing table of 8-byte slots. What every decision reads stands
// first, within a cache line or two.
type shard struct {
	mu    sync.Mutex // protects the following
	tick  uint32     // recordings, for the sweep
	added bool       // a record was added since the last sweep

	// index holds hash tag << 32 | record, 0 = free, in probe order: a slot stands
	// at home(tag) or behind it with no free slot between. Its size is no power of
	// two, so that it can grow by a quarter and stay well filled.
	index   []uint64
	records slab.Slab[record, *record]
	arena   window.Arena
	scratch []byte // for keys of several values

	hand    int   // next slot to sweep
	soonest int64 // earliest expiry the present pass has seen
	quiet   int64 // nothing on the engine's clock expires before this instant

	_ [56]byte // fills the last cache line
}

func (s *shard) init(m *Memory) {
	s.arena.Budget = &m.budget
	s.soonest = window.Forever
}

const slotSize = 8

// home is the slot at which the search for a tag begins: tag scaled to the size
// of the index.
func home(tag uint32, size int) int {
	return int(uint64(tag) * uint64(size) >> 32)
}

// find returns the record of the key in limit l, or 0.
func (s *shard) find(tag uint32, l *memoryLimit, k *Key) uint32 {
	size := len(s.index)
	if size == 0 {
		return 0
	}
	short, v := false, "" // a key of one value that fits its record is compared here
	if l.sole >= 0 {
		v = k.value(l.sole)
		short = len(v) <= inlineKey
	}
	for i := home(tag, size); ; {
		slot := s.index[i]
		if slot == 0 {
			return 0
		}
		if uint32(slot>>32) == tag {
			r := s.records.At(uint32(slot))
			switch {
			case r.limit != l.id:
			case short && int(r.size) == len(v) && string(r.key[:len(v)]) == v:
				return uint32(slot)
			case !short && r.holds(&s.arena, l, k, &s.scratch):
				return uint32(slot)
			}
		}
		if i++; i == size {
			i = 0
		}
	}
}

// reserve reports whether that many records and chunks can be added; nothing is
// added yet.
func (s *shard) reserve(m *Memory, records, chunks int) bool {
	if chunks > 0 && !s.arena.Reserve(chunks) {
		return false
	}
	if records == 0 {
		return true
	}
	return s.records.Reserve(records, recordSize, &m.budget) && s.growIndex(m, records)
}

// insert adds a record for a key that has none; reserve has made room.
func (s *shard) insert(tag uint32, l *memoryLimit, k *Key) uint32 {
	ref := s.records.Alloc()
	r := s.records.At(ref)
	r.History = window.Empty
	r.limit = l.id
	s.scratch = encodeKey(s.scratch[:0], l.by, k)
	r.setKey(&s.arena, s.scratch)
	s.place(uint64(tag)<<32 | uint64(ref))
	return ref
}

// place puts a slot where find will look for it.
func (s *shard) place(slot uint64) {
	size := len(s.index)
	i := home(uint32(slot>>32), size)
	for s.index[i] != 0 {
		if i++; i == size {
			i = 0
		}
	}
	s.index[i] = slot
}

// growIndex makes the index large enough for n more records: at most three
// quarters full.
func (s *shard) growIndex(m *Memory, n int) bool {
	size := len(s.index)
	for 4*(s.records.Len()+n) > 3*size {
		size += size/4 + 8
	}
	return size == len(s.index) || s.resizeIndex(m, size)
}

func (s *shard) resizeIndex(m *Memory, size int) bool {
	if !m.budget.Take(size * slotSize) {
		return false
	}
	old := s.index
	s.index = make([]uint64, size)
	for _, slot := range old {
		if slot != 0 {
			s.place(slot)
		}
	}
	m.budget.Give(len(old) * slotSize)
	s.hand, s.soonest = 0, window.Forever
	return true
}

// remove forgets the record of slot i. Later slots of the run move up, so that a
// search never ends early; slot i may hold another record afterwards.
func (s *shard) remove(m *Memory, i int) {
	ref := uint32(s.index[i])
	r := s.records.At(ref)
	r.freeKey(&s.arena)
	r.History.Free(&s.arena)
	s.records.Free(ref, recordSize, &m.budget)
	if m.maxKeys > 0 {
		m.keys.Add(-1)
	}
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

// slotOf returns the slot of a record that is present.
func (s *shard) slotOf(tag, ref uint32) int {
	slot := uint64(tag)<<32 | uint64(ref)
	for i := home(tag, len(s.index)); ; {
		if s.index[i] == slot {
			return i
		}
		if i++; i == len(s.index) {
			i = 0
		}
	}
}
