package keytable

// The index of a shard consists of open-addressing tables, its parts. A part holds the tags
// that share their low bits. It grows by itself, and one that would become too large is
// split in two, so that no step of growth takes long (BenchmarkGrowth). One table was
// shorter, but with 10,000,000 keys a step took milliseconds. Parts are not joined again
// until the shard is empty: what is left of one takes a thousandth of its records.

// part is one table of the index.
type part struct {
	// slots hold tag << 32 | record, 0 = free, in probe order: a slot stands at home(tag)
	// or behind it with no free slot between. Their number is no power of two, so that it
	// can grow by a quarter and stay well filled. They are written atomically.
	slots []uint64
	used  int   // slots that are not free
	bits  uint8 // the number of low bits that all tags of the part share
}

const (
	slotSize = 8

	// mostSlots bounds a part, and the slots that one step of growth moves.
	mostSlots = 2048

	// mostBits bounds the parts of tags that are not random.
	mostBits = 16
)

// first reports whether i is the first of the places of the part among the parts.
func (p *part) first(i int) bool { return i < 1<<p.bits }

// home is the slot at which the search for a tag begins: tag scaled to the number of slots.
func home(tag uint32, size int) int {
	return int(uint64(tag) * uint64(size) >> 32)
}

// freeSlot returns the slot for a tag that Find would look at next.
func freeSlot(slots []uint64, tag uint32) int {
	i := home(tag, len(slots))
	for slots[i] != 0 {
		if i++; i == len(slots) {
			i = 0
		}
	}
	return i
}

// directory is the index for callers without the lock. It does not change.
type directory struct {
	sole  []uint64   // the slots of the only part: one cache line less to fetch
	parts [][]uint64 // the slots of each of several parts
}

// slots returns the slots among which a tag is, nil if there are none. It needs no lock.
func (s *Shard) slots(tag uint32) []uint64 {
	d := s.index.Load()
	switch {
	case d == nil:
		return nil
	case d.parts == nil:
		return d.sole
	}
	return d.parts[int(tag)&(len(d.parts)-1)]
}

// partOf returns the part of a tag.
func (s *Shard) partOf(tag uint32) *part { return s.parts[int(tag)&(len(s.parts)-1)] }

// growIndex makes the part of a tag large enough for n more records: at most three quarters
// full.
func (s *Shard) growIndex(t *Table, tag uint32, n int) bool {
	if len(s.parts) == 0 {
		s.parts = []*part{{}}
	}
	p := s.partOf(tag)
	size := roomy(p.used + n)
	switch {
	case 4*(p.used+n) <= 3*len(p.slots):
		return true
	case size > mostSlots && p.bits < mostBits:
		return s.split(t, tag, n)
	}
	return s.resize(t, p, size)
}

// roomy is the number of slots for n records of a part that grows: by a quarter of a full one.
func roomy(n int) int { return n*5/3 + 8 }

// resize gives a part another number of slots.
func (s *Shard) resize(t *Table, p *part, size int) bool {
	if !t.Take(size * slotSize) {
		return false
	}
	old := p.slots
	p.slots = make([]uint64, size)
	for _, slot := range old {
		if slot != 0 {
			p.slots[freeSlot(p.slots, uint32(slot>>32))] = slot
		}
	}
	s.replaced(t, p, len(old))
	return true
}

// split splits the part of a tag by its next bit. Each half has room for n more records.
func (s *Shard) split(t *Table, tag uint32, n int) bool {
	p := s.partOf(tag)
	bit := uint32(1) << p.bits
	var used [2]int
	for _, slot := range p.slots {
		if slot != 0 {
			used[uint32(slot>>32)>>p.bits&1]++
		}
	}
	sizes := [2]int{roomy(used[0] + n), roomy(used[1] + n)}
	if !t.Take((sizes[0] + sizes[1]) * slotSize) {
		return false
	}
	old := p.slots
	halves := [2]*part{p, {}}
	for i, half := range halves {
		*half = part{slots: make([]uint64, sizes[i]), used: used[i], bits: p.bits}
	}
	for _, slot := range old {
		if slot != 0 {
			slots := halves[uint32(slot>>32)>>p.bits&1].slots
			slots[freeSlot(slots, uint32(slot>>32))] = slot
		}
	}
	if int(bit) == len(s.parts) {
		s.parts = append(s.parts, s.parts...)
	}
	for i := int(tag&(bit-1) | bit); i < len(s.parts); i += 2 * int(bit) {
		s.parts[i] = halves[1]
	}
	halves[0].bits++
	halves[1].bits++
	s.replaced(t, p, len(old))
	return true
}

// replaced shows callers without the lock the new slots of p, and gives the old ones back.
func (s *Shard) replaced(t *Table, p *part, old int) {
	d := &directory{sole: p.slots}
	if len(s.parts) > 1 {
		d.parts = make([][]uint64, len(s.parts))
		for i, p := range s.parts {
			d.parts[i] = p.slots
		}
	}
	s.index.Store(d)
	t.Give(old * slotSize)
	if s.parts[s.part] == p { // records have moved: the pass sees them all, some of them again
		s.hand = 0
	}
}

// steps is the number of steps of a pass over the index that removes nothing: one for each
// slot, and one for the end of each part.
func (s *Shard) steps() (n int) {
	for i, p := range s.parts {
		if p.first(i) {
			n += len(p.slots) + 1
		}
	}
	return n
}

// indexBytes is the size of all slots.
func (s *Shard) indexBytes() (n int) {
	for i, p := range s.parts {
		if p.first(i) {
			n += len(p.slots) * slotSize
		}
	}
	return n
}
