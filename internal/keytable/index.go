package keytable

import (
	"slices"
	"sync"
	"sync/atomic"
)

// The index of a shard consists of blocks, open-addressing tables of up to blockSlots slots.
// It grows block by block: moving all slots at once took milliseconds with 10,000,000 keys
// (BenchmarkGrowth). The memory of full blocks stays in use. Replaced memory left so much
// garbage that an attacked process took 310 to 350 MiB under a cap of 256 (bench/speed).
//
// The low bits of a tag say in which part of the index it is. A part has one to maxBlocks
// blocks. One that would need more is split in two, and halves with few records are joined.

// directory finds the slots of a tag. Callers without the lock read it.
type directory struct {
	sole []uint64 // the slots of the only block: one cache line less to fetch

	// If there are more blocks, or if it is full, these are the blocks by the low bits of the
	// tag and its range. Ranges and parts share blocks.
	blocks []atomic.Pointer[[blockSlots]uint64]
	mask   uint32 // the low bits
}

// part is the blocks of all tags with certain low bits.
type part struct {
	array [maxBlocks]block
	count uint32 // of blocks; a tag is in block tag * count >> 32
	low   uint32 // the low bits
	bits  uint8  // their number
}

// block is one table of the index.
type block struct {
	// slots hold tag << 32 | record, 0 = free, in probe order: a slot stands at its home or
	// behind it with no free slot between. They are written atomically. There are blockSlots,
	// or fewer in the only block.
	slots []uint64
	used  int // slots that are not free
}

const (
	slotSize = 8

	// blockSlots bounds a block: 4 KiB, of which Go's allocator loses nothing.
	blockSlots = 512

	// maxBlocks bounds a part, and with blockSlots the slots that one step of growth moves.
	maxBlocks = 3

	// ranges is the number of ranges of tags: one, two and three blocks take whole ones.
	ranges = 6

	// maxBits bounds the number of parts, which then hold 5,000,000,000 records in all shards.
	maxBits = 16
)

// home is the slot at which the search for a tag begins, in a block of that size.
func home(tag uint32, size int) int { return int(uint64(tag*ranges) * uint64(size) >> 32) }

// slots returns the slots among which a tag is. It needs no lock.
func (s *Shard) slots(tag uint32) []uint64 {
	d := s.index.Load()
	switch {
	case d == nil:
		return nil
	case d.sole != nil:
		return d.sole
	}
	return d.blocks[d.place(tag)].Load()[:]
}

// place is the place of the block of a tag.
func (d *directory) place(tag uint32) int {
	return int(tag&d.mask)*ranges + int(uint64(tag)*ranges>>32)
}

// block returns the block of a tag.
func (p *part) block(tag uint32) *block { return &p.array[uint64(tag)*uint64(p.count)>>32] }

// blocks returns all blocks.
func (p *part) blocks() []block { return p.array[:p.count] }

// insert adds a slot. There must be a free one.
func (b *block) insert(slot uint64) {
	i := home(uint32(slot>>32), len(b.slots))
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

// part returns the part of a tag.
func (s *Shard) part(tag uint32) *part { return s.parts[int(tag)&(len(s.parts)-1)] }

// fits reports whether a block of that size may hold n records.
func fits(n, size int) bool { return 16*n <= 13*size }

// roomy is the number of slots for n records in the only block: it grows by a quarter.
func roomy(n int) int { return min(n*5/3+8, blockSlots) }

// blocksFor is the number of blocks for n records: up to two thirds full, or maxBlocks.
func blocksFor(n int) uint32 { return uint32(min(1+3*n/(2*blockSlots+1), maxBlocks)) }

// grow makes the block of a tag large enough for n more records. It cannot if there are too
// many parts, as with tags that are not random.
func (s *Shard) grow(t *Table, tag uint32, n int) bool {
	if len(s.parts) == 0 {
		s.parts = []*part{{count: 1}}
	}
	for {
		p := s.part(tag)
		b := p.block(tag)
		switch {
		case fits(b.used+n, len(b.slots)):
			return true
		case !t.room(slotSize * roomy(b.used+n)): // a caller at the cap moves nothing in vain
			return false
		case len(b.slots) < roomy(b.used+n):
			if !s.move(t, n, []*part{p}, p.like(1)) {
				return false
			}
		case p.count < maxBlocks:
			if !s.move(t, n, []*part{p}, p.like(p.count+1)) {
				return false
			}
		case p.bits == maxBits || !s.split(t, n, p):
			return false
		}
	}
}

// like returns a part for the same tags, with so many empty blocks.
func (p *part) like(count uint32) *part { return &part{count: count, low: p.low, bits: p.bits} }

// split splits a part by the next bit of the tags, with room for n more records in each block.
func (s *Shard) split(t *Table, n int, p *part) bool {
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
	return s.move(t, n, []*part{p}, lower, upper)
}

// shrink gives blocks of a part back that are far too many. An upper half is joined with the
// lower one if both have few records: a pass of the sweep that has seen it has seen both.
func (s *Shard) shrink(t *Table, p *part) {
	n := p.used()
	lower := s.part(p.low &^ (1 << p.bits >> 1))
	switch {
	case lower != p && lower.bits == p.bits && 3*(n+lower.used()) <= blockSlots:
		joined := lower.like(1)
		joined.bits--
		s.move(t, 0, []*part{lower, p}, joined)
	case blocksFor(2*n) < p.count || p.bits == 0 && 4*roomy(n) < p.size():
		s.move(t, 0, []*part{p}, p.like(blocksFor(2*n)))
	}
}

// moving lends room for the slots that a step of growth moves.
var moving = sync.Pool{New: func() any { return new([]uint64) }}

// move puts a part or two halves in the place of a part or two halves. The new blocks get the
// slots, the memory of the full ones, and room for n more records each.
func (s *Shard) move(t *Table, n int, from []*part, to ...*part) bool {
	buffer := moving.Get().(*[]uint64)
	defer moving.Put(buffer)
	slots, full, size := (*buffer)[:0], make([][]uint64, 0, 2*maxBlocks), 0
	target := func(slot uint64) *block {
		tag := uint32(slot >> 32)
		return to[int(tag>>from[0].bits)&(len(to)-1)].block(tag)
	}
	for _, p := range from {
		size += p.size()
		for _, b := range p.blocks() {
			for _, slot := range b.slots {
				if slot != 0 {
					slots = append(slots, slot)
					target(slot).used++
				}
			}
			if len(b.slots) == blockSlots {
				full = append(full, b.slots)
			}
		}
	}
	*buffer = slots

	bytes, kept := 0, 0
	for _, p := range to {
		for _, b := range p.blocks() {
			switch size := p.sizeFor(b.used + n); {
			case b.used+n >= size:
				return false
			case size == blockSlots && kept < len(full):
				kept++
			default:
				bytes += size * slotSize
			}
		}
	}
	if !t.Take(bytes) {
		return false
	}
	t.Give((size - kept*blockSlots) * slotSize)
	for _, p := range to {
		for i := range p.blocks() {
			b := &p.array[i]
			if size := p.sizeFor(b.used + n); size == blockSlots && len(full) > 0 {
				b.slots, full = full[0], full[1:]
				for i := range b.slots {
					if b.slots[i] != 0 {
						atomic.StoreUint64(&b.slots[i], 0)
					}
				}
			} else {
				b.slots = make([]uint64, size)
			}
			b.used = 0
		}
	}
	for _, slot := range slots {
		target(slot).insert(slot)
	}
	s.replace(from, to)
	return true
}

// sizeFor is the number of slots of a block of p for n records.
func (p *part) sizeFor(n int) int {
	if p.bits == 0 && p.count == 1 {
		return roomy(n)
	}
	return blockSlots
}

// replace puts parts in the place of others, and shows callers without the lock their blocks.
func (s *Shard) replace(from, to []*part) {
	if slices.Contains(from, s.parts[s.nextPart]) { // slots have moved: the pass sees them all, some of them again
		s.nextBlock, s.hand = 0, 0
	}
	switch bits := to[0].bits; {
	case bits == 0:
		s.parts, s.nextPart = s.parts[:1:1], 0
	case len(s.parts) < 1<<bits:
		s.parts = append(s.parts, s.parts...)
	}
	for _, p := range to {
		for i := int(p.low); i < len(s.parts); i += 1 << p.bits {
			s.parts[i] = p
		}
	}
	if p := s.parts[0]; len(s.parts) == 1 && p.count == 1 {
		s.index.Store(&directory{sole: p.array[0].slots})
		return
	}
	d, all := s.index.Load(), false
	if len(d.blocks) != len(s.parts)*ranges {
		d, all = &directory{
			blocks: make([]atomic.Pointer[[blockSlots]uint64], len(s.parts)*ranges),
			mask:   uint32(len(s.parts) - 1),
		}, true
	}
	for i, p := range s.parts {
		for j := 0; j < ranges && (all || slices.Contains(to, p)); j++ {
			d.blocks[i*ranges+j].Store((*[blockSlots]uint64)(p.array[j*int(p.count)/ranges].slots))
		}
	}
	s.index.Store(d)
}

// eachPart yields each part once.
func (s *Shard) eachPart(yield func(*part) bool) {
	for i, p := range s.parts {
		if i == int(p.low) && !yield(p) {
			return
		}
	}
}

// steps is the number of steps of a pass over the index that removes nothing: one for each
// slot, and one for the end of each block.
func (s *Shard) steps() (n int) {
	for p := range s.eachPart {
		n += p.size() + int(p.count)
	}
	return n
}

// indexBytes is the size of all slots.
func (s *Shard) indexBytes() (n int) {
	for p := range s.eachPart {
		n += p.size() * slotSize
	}
	return n
}
