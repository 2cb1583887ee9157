package keytable

import (
	"iter"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir/internal/window"
)

// The slots of a shard stand in blocks. The high bits of a place choose the block, as in
// extendible hashing. Other bits of the hash choose a group of eight slots, at which a search in
// the block begins. A byte for each slot, its tag, has seven further bits, so most searches read
// one slot. A block that is full is split in two, so a step of growth moves the slots of one
// block.

// directory finds the block of a place. It never changes: growth replaces it, so callers
// without the lock of the shard may read it.
type directory struct {
	shift  uint8   // the bits of a place above it choose the block
	first  block   // blocks[0], which most shards have alone, in the cache line of the directory
	blocks []block // 1 << (32 - shift), each perhaps several times
}

// noSlots is the directory from which the first block of a shard is built.
var noSlots = &directory{shift: 32, blocks: make([]block, 1)}

// block has the tags and the slots: a word of tags for each group, with the state behind them.
// Tags are stored apart from slots, so that the tags of all blocks take few pages of memory.
type block struct {
	tags   *atomic.Uint64 // the first one
	slots  *Slot          // the first one
	groups uint32
}

// sizes are the numbers of groups of a block. A block that is full gets the next size, and
// one of the last size is split. The memory of the larger ones fills size classes or pages of
// Go's allocator, and blocks are three quarters full on average. Each step of growth copies the
// directory, which would be larger with smaller blocks.
var sizes = [...]uint32{1, 2, 3, 4, 6, 8, 12, 19, 28, 40, 56, 80, 112}

const (
	groupSlots = 8
	maxBits    = 16 // 65,536 blocks, and 1,500,000,000 keys in all shards

	// Tags of slots without a key. A search goes on behind a slot that was removed.
	emptyTag   = 0x00
	removedTag = 0x01
	liveTag    = 0x80

	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

// blockState is the last word behind the tags. The lock of the shard protects it.
type blockState struct {
	used   uint16 // slots with a key
	filled uint16 // slots that are not empty
	depth  uint32 // bits of a place that all slots of the block have in common
}

// group is the word with the tags of a group.
func (b block) group(i uint32) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(b.tags), uintptr(i)*8))
}

func (b block) state() *blockState { return (*blockState)(unsafe.Pointer(b.group(b.groups))) }

// slot is slot i of a group.
func (b block) slot(group uint32, i int) *Slot {
	return (*Slot)(unsafe.Add(unsafe.Pointer(b.slots),
		(uintptr(group)*groupSlots+uintptr(i))*slotBytes))
}

// home is the group at which the search for a hash begins.
func (b block) home(low uint32) uint32 { return (low & 0xffff) * b.groups >> 16 }

// limit is the most slots that are not empty: seven eighths.
func (b block) limit() int { return mostOf(b.groups) }

func mostOf(groups uint32) int { return int(groups) * groupSlots * 7 / 8 }

// bytes is the memory of a block, with its place in the directory.
func (b block) bytes() int {
	return int(b.groups)*(8+groupSlots*slotBytes) +
		8 + int(unsafe.Sizeof(b))
}

// block returns the block of a place.
func (d *directory) block(place uint32) block {
	if d.shift == 32 {
		return d.first
	}
	return d.blocks[place>>d.shift]
}

// bits is the number of bits that choose a block.
func (d *directory) bits() uint32 { return 32 - uint32(d.shift) }

// matches marks the bytes of word that equal tag, and perhaps others above such a byte.
func matches(word uint64, tag uint8) uint64 {
	x := word ^ uint64(tag)*eachByte
	return (x - eachByte) &^ x & highBits
}

// Find returns the slot that most likely has the key, or nil, and begins to load it. The caller
// reads the clock before it calls Acquire, which saves a tenth of a decision on many keys
// (bench/speed).
//
// Find needs no lock, but it may miss a slot that moves meanwhile. Without a slot the caller
// locks the shard and uses Lookup.
func (s *Shard) Find(k *Key) *Slot { return s.tagged(k, 0) }

// Acquire locks and returns the slot with the key of that text: the one that Find has returned,
// or another one with the same tag. It returns nil if there is none, if the newest entries
// were recorded on the other clock, or if the key may have a block or appointments.
func (s *Shard) Acquire(slot *Slot, k *Key, text string) *Slot {
	for skip := 1; slot != nil; skip++ {
		if slot.tryLock(k) {
			if s.has(slot, k, text) {
				return slot
			}
			slot.Release(k)
		}
		slot = s.tagged(k, skip)
	}
	return nil
}

// Lookup returns the slot of the key with that text, or nil. The shard is locked.
func (s *Shard) Lookup(k Key, text string) *Slot {
	for skip := 0; ; skip++ {
		slot := s.tagged(&k, skip)
		if slot == nil || slot.fits(&k) && s.has(slot, &k, text) {
			return slot
		}
	}
}

// HasBlocks reports whether a key has a block. The shard is locked.
func (s *Shard) HasBlocks() bool { return s.blockSlots > 0 }

// BlockOf returns the slot with the block of the key with that text, or nil. The shard is locked.
func (s *Shard) BlockOf(k Key, text string) *Slot {
	if s.blockSlots == 0 {
		return nil
	}
	return s.Lookup(k.OfBlock(), text)
}

// tagged returns the slot with the tag of the key behind skip others, and begins to load it. It
// returns nil if there is none.
func (s *Shard) tagged(k *Key, skip int) *Slot {
	d := s.directory.Load()
	if d == nil {
		return nil
	}
	b := d.block(k.place())
	group := b.home(k.low())
	for range b.groups {
		word := b.group(group).Load()
		for m := matches(word, tagOf(k.hash)); m != 0; m &= m - 1 {
			if skip == 0 {
				slot := b.slot(group, bits.TrailingZeros64(m)/8)
				prefetch(slot)
				return slot
			}
			skip--
		}
		if matches(word, emptyTag) != 0 {
			return nil
		}
		if group++; group == b.groups {
			group = 0
		}
	}
	return nil
}

// Insert adds a slot with an empty history for a key without one, and returns it locked. Reserve
// must have made room for it. Insert returns nil if there is no room for a long key.
func (s *Shard) Insert(k Key, text string) *Slot {
	b := s.directory.Load().block(k.place())
	slot, group, i := b.free(k.low())
	if !s.setKey(slot, k, text) {
		return nil
	}
	slot.History = window.Empty
	slot.state.Store(k.state | locked)
	b.fill(group, i, tagOf(k.hash))
	s.used++
	if k.state&isBlock != 0 {
		s.blockSlots++
	}
	return slot
}

// free finds the first slot without a key for a hash.
func (b block) free(low uint32) (slot *Slot, group uint32, i int) {
	for group = b.home(low); ; {
		if m := ^b.group(group).Load() & highBits; m != 0 {
			i = bits.TrailingZeros64(m) / 8
			return b.slot(group, i), group, i
		}
		if group++; group == b.groups {
			group = 0
		}
	}
}

// fill sets the tag of a slot that gets a key.
func (b block) fill(group uint32, i int, tag uint8) {
	state, word := b.state(), b.group(group)
	before := word.Load()
	if before>>(i*8)&0xff == emptyTag {
		state.filled++
	}
	state.used++
	word.Store(before&^(0xff<<(i*8)) | uint64(tag)<<(i*8))
}

// remove removes a slot, which is locked, from its block, with its history. A group with an
// empty slot ends searches, so there the slot becomes empty.
func (s *Shard) remove(t *Table, b block, group uint32, i int) {
	slot := b.slot(group, i)
	if slot.size() == longSize {
		run, _ := slot.longKey()
		s.Arena.Free(run)
	}
	if slot.IsBlock() {
		s.blockSlots--
	}
	s.RemoveAhead(t, slot)
	slot.History.Free(&s.Arena)
	slot.state.Store(0)
	state, word := b.state(), b.group(group)
	tags := word.Load() &^ (0xff << (i * 8))
	if matches(word.Load(), emptyTag) == 0 {
		tags |= removedTag << (i * 8)
	} else {
		state.filled--
	}
	word.Store(tags)
	state.used--
	s.used--
	t.GiveKeys(1)
}

// Remove removes the slot of a key, which is locked. It counts one key less.
func (s *Shard) Remove(t *Table, k Key, slot *Slot) {
	b := s.directory.Load().block(k.place())
	i := int(uintptr(unsafe.Pointer(slot))-uintptr(unsafe.Pointer(b.slots))) / slotBytes
	s.remove(t, b, uint32(i/groupSlots), i%groupSlots)
}

// Reserve makes room for n more keys with that hash, or reports false. No slot of the shard
// is locked by the caller.
func (s *Shard) Reserve(t *Table, k Key, n int) bool {
	for {
		d := s.directory.Load()
		if d == nil {
			if !s.rebuild(t, noSlots, k.place(), 0, n) {
				return false
			}
			continue
		}
		b := d.block(k.place())
		state := b.state()
		if int(state.filled)+n <= b.limit() {
			return true
		}
		depth := state.depth
		// With fewer keys many tags are removed ones, and a block of the same size has room.
		if 8*(int(state.used)+n) > 7*mostOf(sizes[len(sizes)-1]) {
			depth++
		}
		if depth > maxBits || !s.rebuild(t, d, k.place(), depth, n) {
			return false
		}
	}
}

// groupsFor is the number of groups of a block with room for n keys.
func groupsFor(n int) uint32 {
	for _, groups := range sizes {
		if n <= mostOf(groups) {
			return groups
		}
	}
	return sizes[len(sizes)-1]
}

// newBlock returns an empty block. Its bytes are taken.
func (t *Table) newBlock(depth, groups uint32) (b block) {
	if spare, ok := t.spare[slices.Index(sizes[:], groups)].Get().(*block); ok {
		b = *spare
	} else {
		b = block{&make([]atomic.Uint64, groups+1)[0], &make([]Slot, groups*groupSlots)[0], groups}
	}
	b.state().depth = depth
	return b
}

// freeBlock gives a block without keys back. Its memory is kept for the next block of its size;
// otherwise growth would leave much garbage. A search that still reads the block finds no slot
// with its key there, or the right one.
func (t *Table) freeBlock(b block) {
	t.Give(b.bytes())
	for i := range b.groups {
		b.group(i).Store(0)
	}
	*b.state() = blockState{}
	t.spare[slices.Index(sizes[:], b.groups)].Put(&b)
}

// rebuild replaces the block of a place by one or two of that depth, with room for n more keys
// each: its slots are spread over two, or they get a block of another size.
func (s *Shard) rebuild(t *Table, d *directory, place, depth uint32, n int) bool {
	from := d.block(place)
	common := depth // the bits of a place that the slots have in common
	used := 0       // slots with a key
	upper := 0      // those of them that the second new block gets
	if from.groups > 0 {
		common, used = from.state().depth, int(from.state().used)
		if depth > common {
			for slot := range from.live {
				upper += int(slot.place() >> (32 - depth) & 1)
			}
		}
	}
	// All bytes are taken in one step before anything is allocated, because a flood of new keys
	// at a cap gets here again and again.
	first, second := block{groups: groupsFor(used - upper + n)}, block{}
	bytes := first.bytes()
	if depth > common {
		second.groups = groupsFor(upper + n)
		bytes += second.bytes()
	}
	if !t.TakeAbove(s.Arena.Spare, bytes) {
		return false
	}

	to := &directory{shift: min(d.shift, uint8(32-depth))}
	to.blocks = make([]block, 1<<to.bits())
	for i := range to.blocks {
		to.blocks[i] = d.blocks[i>>(d.shift-to.shift)]
	}
	first = t.newBlock(depth, first.groups)
	if second.groups > 0 {
		second = t.newBlock(depth, second.groups)
	} else {
		second = first
	}
	places := to.places(place, common)
	for i := range places {
		if places[i] = first; i >= len(places)/2 {
			places[i] = second
		}
	}
	to.first = to.blocks[0]
	if from.groups > 0 {
		to.take(from)
		t.freeBlock(from)
	}
	if to.block(s.hand) == first || to.block(s.hand) == second {
		s.handGroup = 0 // the slots that the sweep has not seen may be anywhere in the new block
	}
	s.directory.Store(to)
	return true
}

// places returns the blocks of all places that have their first bits in common with one.
func (d *directory) places(place, bits uint32) []block {
	span := uint32(1) << (d.bits() - bits)
	start := place >> d.shift &^ (span - 1)
	return d.blocks[start : start+span]
}

// distinct returns the blocks at some places, each once.
func distinct(places []block) iter.Seq[block] {
	return func(yield func(block) bool) {
		for i, b := range places {
			if b.groups > 0 && (i == 0 || b != places[i-1]) && !yield(b) {
				return
			}
		}
	}
}

// live yields the slots with a key. The shard is locked.
func (b block) live(yield func(*Slot) bool) {
	for group := range b.groups {
		for m := b.group(group).Load() & highBits; m != 0; m &= m - 1 {
			if !yield(b.slot(group, bits.TrailingZeros64(m)/8)) {
				return
			}
		}
	}
}

// take moves all slots of a block to the blocks of the directory.
func (d *directory) take(from block) {
	for group := range from.groups {
		word := from.group(group).Load()
		for m := word & highBits; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m) / 8
			old := from.slot(group, i)
			state := old.vacate()
			low := uint32(state >> hashShift)
			b := d.block(placeOf(low))
			slot, g, j := b.free(low)
			slot.lo = old.lo
			slot.hi = old.hi
			slot.History = old.History
			slot.state.Store(state)
			b.fill(g, j, uint8(word>>(i*8)))
		}
	}
}
