package keytable

import (
	"sync"
	"sync/atomic"
)

// The index of a shard consists of blocks, open-addressing tables of up to blockSlots slots.
// It grows block by block: moving all slots at once took milliseconds with 10,000,000 keys
// (BenchmarkGrowth). The memory of full blocks stays in use. Other memory instead left so much
// garbage that an attacked process took 310 to 350 MiB under a cap of 256 (bench/speed).
//
// The low bits of a tag say in which part of the index it is. A part has one to mostBlocks
// blocks. One that would need more is split in two. Parts are not joined again until the shard
// is empty: what is left of one takes a thousandth of its records.

// directory finds the part of a tag. Callers without the lock read it, too.
type directory struct {
	sole  []uint64               // the slots of the only block: two cache lines less to fetch
	parts []atomic.Pointer[part] // by the low bits of the tag; some stand at several places
}

// part is the blocks of all tags with certain low bits. Only block.used changes.
type part struct {
	array [mostBlocks]block
	count uint32 // of blocks; a tag is in block tag * count >> 32
	low   uint32 // the low bits
	bits  uint8  // their number
}

// block is one table of the index.
type block struct {
	// slots hold tag << 32 | record, 0 = free, in probe order: a slot stands at its home or
	// behind it with no free slot between. They are written atomically.
	slots []uint64
	used  int // slots that are not free
}

const (
	slotSize = 8

	// blockSlots bounds a block: 4 KiB, of which Go's allocator loses nothing.
	blockSlots = 512

	// mostBlocks bounds a part, and with blockSlots the slots that one step of growth moves.
	mostBlocks = 3

	// mostBits bounds the parts of tags that are not random.
	mostBits = 16
)

// home is the slot at which the search for a tag begins, in a block of that size, one of so
// many of the part.
func home(tag, blocks uint32, size int) int {
	return int(uint64(tag*blocks) * uint64(size) >> 32)
}

// slots returns the slots among which a tag is, and its home there. It needs no lock.
func (s *Shard) slots(tag uint32) (slots []uint64, first int) {
	d := s.index.Load()
	switch {
	case d == nil:
		return nil, 0
	case d.sole != nil:
		return d.sole, home(tag, 1, len(d.sole))
	}
	p := d.part(tag)
	slots = p.block(tag).slots
	return slots, home(tag, p.count, len(slots))
}

// part returns the part of a tag.
func (d *directory) part(tag uint32) *part { return d.parts[int(tag)&(len(d.parts)-1)].Load() }

// at returns the i-th part, and whether it stands there first.
func (d *directory) at(i int) (p *part, first bool) {
	p = d.parts[i].Load()
	return p, i == int(p.low)
}

// block returns the block of a tag.
func (p *part) block(tag uint32) *block { return &p.array[uint64(tag)*uint64(p.count)>>32] }

// blocks returns all blocks.
func (p *part) blocks() []block { return p.array[:p.count] }

// insert adds a slot. There must be a free one.
func (p *part) insert(slot uint64) {
	tag := uint32(slot >> 32)
	b := p.block(tag)
	i := home(tag, p.count, len(b.slots))
	for b.slots[i] != 0 {
		if i++; i == len(b.slots) {
			i = 0
		}
	}
	atomic.StoreUint64(&b.slots[i], slot)
	b.used++
}

// used is the number of slots that are not free.
func (p *part) used() (n int) {
	for _, b := range p.blocks() {
		n += b.used
	}
	return n
}

// size is the number of slots.
func (p *part) size() (n int) {
	for _, b := range p.blocks() {
		n += len(b.slots)
	}
	return n
}

// like returns a part for the same tags, with so many empty blocks.
func (p *part) like(count int) *part { return &part{count: uint32(count), low: p.low, bits: p.bits} }

// fits reports whether a block of that size may hold n records.
func fits(n, size int) bool { return 16*n <= 13*size }

// roomy is the number of slots for n records of a block that grows: by a quarter of a full one.
func roomy(n int) int { return n*5/3 + 8 }

// blocksFor is the number of blocks for n records: up to two thirds full, or mostBlocks.
func blocksFor(n int) int { return min(1+3*n/(2*blockSlots+1), mostBlocks) }

// grow makes the block of a tag large enough for n more records.
func (s *Shard) grow(t *Table, tag uint32, n int) bool {
	p := &part{count: 1}
	if d := s.index.Load(); d != nil {
		p = d.part(tag)
	}
	b, used, count := p.block(tag), p.used(), int(p.count)
	switch {
	case fits(b.used+n, len(b.slots)):
		return true
	case !t.room(slotSize * min(roomy(b.used+n), blockSlots)): // a caller at the cap moves nothing in vain
		return false
	case count == 1 && fits(used+n, blockSlots):
	case count > 1 && 3*b.used >= 2*used: // the tags are not random: more blocks do not help
	case count < mostBlocks:
		count++
	case p.bits < mostBits:
		return s.split(t, p, n)
	}
	return s.move(t, p, n, p.like(count))
}

// split splits a part by the next bit of the tags. Each block gets room for n more records.
func (s *Shard) split(t *Table, p *part, n int) bool {
	var used [2]int
	for _, b := range p.blocks() {
		for _, slot := range b.slots {
			if slot != 0 {
				used[slot>>32>>p.bits&1]++
			}
		}
	}
	lower, upper := p.like(blocksFor(used[0])), p.like(blocksFor(used[1]))
	upper.low |= 1 << p.bits
	lower.bits++
	upper.bits++
	return s.move(t, p, n, lower, upper)
}

// shrink gives blocks of a part back that are far too many.
func (s *Shard) shrink(t *Table, p *part) {
	if n := p.used(); 4*roomy(n) < p.size() {
		s.move(t, p, 0, p.like(blocksFor(n)))
	}
}

// moving lends room for the slots that a step of growth moves.
var moving = sync.Pool{New: func() any { return new([]uint64) }}

// move puts one part or the two halves of p in the place of p. Their blocks get the slots of
// p, the memory of its full blocks, and room for n more records each.
func (s *Shard) move(t *Table, p *part, n int, to ...*part) bool {
	buffer := moving.Get().(*[]uint64)
	defer moving.Put(buffer)
	slots, full := (*buffer)[:0], make([][]uint64, 0, mostBlocks)
	for _, b := range p.blocks() {
		for _, slot := range b.slots {
			if slot != 0 {
				slots = append(slots, slot)
				tag := uint32(slot >> 32)
				p.heir(tag, to).block(tag).used++
			}
		}
		if len(b.slots) == blockSlots {
			full = append(full, b.slots)
		}
	}
	*buffer = slots
	bytes, kept := 0, 0
	for _, q := range to {
		for _, b := range q.blocks() {
			if size := b.sizeFor(n, q); size == blockSlots && kept < len(full) {
				kept++
			} else {
				bytes += size * slotSize
			}
		}
	}
	if !t.Take(bytes) {
		return false
	}
	t.Give((p.size() - kept*blockSlots) * slotSize)
	for _, q := range to {
		for i := range q.blocks() {
			b := &q.array[i]
			if size := b.sizeFor(n, q); size == blockSlots && len(full) > 0 {
				b.slots, full = full[0], full[1:]
				for i := range b.slots {
					atomic.StoreUint64(&b.slots[i], 0)
				}
			} else {
				b.slots = make([]uint64, size)
			}
			b.used = 0
		}
	}
	for _, slot := range slots {
		p.heir(uint32(slot>>32), to).insert(slot)
	}
	s.replace(p, to)
	return true
}

// heir returns the one of the parts in place of p that a tag is in.
func (p *part) heir(tag uint32, parts []*part) *part {
	return parts[int(tag>>p.bits)&(len(parts)-1)]
}

// sizeFor is the number of slots for the records of a block of p and for n more.
func (b *block) sizeFor(n int, p *part) int {
	size := roomy(b.used + n)
	if fits(b.used+n, blockSlots) && (p.count > 1 || size > blockSlots) {
		return blockSlots
	}
	return size
}

// replace puts parts in the place of p in the directory, which is doubled for a first half.
func (s *Shard) replace(p *part, by []*part) {
	old := s.index.Load()
	places := 1
	if old != nil {
		places = len(old.parts)
		if old.parts[s.part].Load() == p { // slots have moved: the pass sees them all, some of them again
			s.block, s.hand = 0, 0
		}
	}
	for places < 1<<by[0].bits {
		places *= 2
	}
	d, sole := old, places == 1 && by[0].count == 1
	if old == nil || sole || old.sole != nil || places > len(old.parts) {
		d = &directory{parts: make([]atomic.Pointer[part], places)}
		for i := 0; old != nil && i < places; i++ {
			d.parts[i].Store(old.part(uint32(i)))
		}
	}
	for _, q := range by {
		for i := int(q.low); i < places; i += 1 << q.bits {
			d.parts[i].Store(q)
		}
	}
	if sole {
		d.sole = by[0].array[0].slots
	}
	s.index.Store(d)
}

// parts yields each part.
func (s *Shard) parts(yield func(*part) bool) {
	d := s.index.Load()
	for i := 0; d != nil && i < len(d.parts); i++ {
		if p, first := d.at(i); first && !yield(p) {
			return
		}
	}
}

// steps is the number of steps of a pass over the index that removes nothing: one for each
// slot, and one for the end of each block.
func (s *Shard) steps() (n int) {
	for p := range s.parts {
		n += p.size() + int(p.count)
	}
	return n
}

// indexBytes is the size of all slots.
func (s *Shard) indexBytes() (n int) {
	for p := range s.parts {
		n += p.size() * slotSize
	}
	return n
}
