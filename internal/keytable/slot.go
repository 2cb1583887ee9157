package keytable

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir/internal/window"
)

// Slot is one history with its key, in a cache line. Its memory is never used for anything but
// slots, so a caller can lock a slot that it found without the lock of the shard.
type Slot struct {
	state  atomic.Uint64
	lo, hi uint64 // the key, as in Key; for a long key hi is its run and size
	window.History
}

const slotBytes = 64

// The state of a slot is 0 while it belongs to no key. Otherwise it holds the half of the
// key's hash that finds it, the group, and the size of the key. Only the holder of the lock
// changes it.
const (
	locked  uint64 = 1 << iota
	live           // the slot belongs to a key
	virtual        // the newest entries were recorded at instants that callers passed
	blocked        // the key may have a block or appointments: Acquire does not find the slot
	isBlock        // the slot is the block of a key, not its history

	sizeShift  = 5 // 0 … inlineKey, or longSize
	groupShift = 10
	hashShift  = 32

	maxGroups = 1 << (hashShift - groupShift)
)

// size is the number of bytes of the key, or longSize.
func (slot *Slot) size() int {
	return int(slot.state.Load() >> sizeShift & (1<<(groupShift-sizeShift) - 1))
}

// Group is the number of the group that the history belongs to (Table.Group).
func (slot *Slot) Group() uint32 { return uint32(slot.state.Load()>>groupShift) % maxGroups }

// low is the part of the key's hash that the slot keeps.
func (slot *Slot) low() uint32 { return uint32(slot.state.Load() >> hashShift) }

// place is the place of the slot, which chooses its block.
func (slot *Slot) place() uint32 { return placeOf(slot.low()) }

// Virtual reports whether the newest entries were recorded at instants that callers passed.
func (slot *Slot) Virtual() bool { return slot.state.Load()&virtual != 0 }

// SetVirtual sets Virtual. The caller has locked the slot.
func (slot *Slot) SetVirtual(is bool) { slot.mark(virtual, is) }

// Blocked reports whether the key may have a block or appointments. Then Acquire does not find the
// slot.
func (slot *Slot) Blocked() bool { return slot.state.Load()&blocked != 0 }

// SetBlocked sets Blocked. The caller has locked the slot and its shard.
func (slot *Slot) SetBlocked(is bool) { slot.mark(blocked, is) }

// mark sets or clears a flag.
func (slot *Slot) mark(flag uint64, is bool) {
	state := slot.state.Load() &^ flag
	if is {
		state |= flag
	}
	slot.state.Store(state)
}

// IsBlock reports whether the slot is the block of a key.
func (slot *Slot) IsBlock() bool { return slot.state.Load()&isBlock != 0 }

// Block returns the instants at which the block of the slot begins and ends.
func (slot *Slot) Block() (begin, end int64) { return slot.Last, slot.Until() }

// SetBlock sets the instants of the slot's block. They are stored as those of an entry, which
// takes no room besides the slot.
func (slot *Slot) SetBlock(begin, end int64) {
	slot.History = window.Empty
	slot.Record(nil, &window.Add{End: end, Now: begin, Units: 1})
}

// fits reports whether the slot may have the key.
func (slot *Slot) fits(k *Key) bool {
	return (slot.state.Load()^k.state)&^(locked|virtual|blocked) == 0
}

// tryLock locks the slot if its state is that of the key, and reports whether it is. The slot
// then may have the key, and its newest entries were recorded on the same clock.
func (slot *Slot) tryLock(k *Key) bool {
	return slot.state.CompareAndSwap(k.state, k.state|locked) || slot.await(k.state)
}

// mostTries bounds the wait of a caller that has not compared the key yet. The slot may belong to
// a key with the same hash that the caller itself holds, or whose holder waits for the caller.
const mostTries = 1000

// await is tryLock if the first try fails. tryLock alone is inlined.
func (slot *Slot) await(want uint64) bool {
	for tries := range mostTries {
		state := slot.state.Load()
		switch {
		case state&^locked != want:
			return false
		case state == want && slot.state.CompareAndSwap(state, state|locked):
			return true
		}
		wait(tries)
	}
	return false // the caller locks the shard, and compares keys before it locks slots
}

// Release unlocks a slot that Acquire has returned, if its state has not changed since.
func (slot *Slot) Release(k *Key) { storeRelease(&slot.state, k.state) }

// Lock locks a slot of a locked shard.
func (slot *Slot) Lock() {
	for tries := 0; ; tries++ {
		state := slot.state.Load()
		if state&locked == 0 && slot.state.CompareAndSwap(state, state|locked) {
			return
		}
		wait(tries)
	}
}

// vacate waits until a slot of a locked shard is unlocked, takes its key, and returns its
// state. The caller then owns the content of the slot.
func (slot *Slot) vacate() (state uint64) {
	slot.Lock()
	return slot.state.Swap(0) &^ locked
}

// Unlock unlocks the slot. It does nothing if the slot was removed.
func (slot *Slot) Unlock() { storeRelease(&slot.state, slot.state.Load()&^locked) }

// wait lets the holder of a lock finish, which often takes less than a microsecond. A caller that
// read the slot in a tight loop would take its cache line from the holder, so it leaves the line
// alone for about a quarter of a microsecond: 14 % of a decision on one hot key of 8 goroutines
// (bench/speed). If the holder needs more or does not run, the caller yields to it.
//
// wait never sleeps: the caller may hold a shard, and in a bubble of testing/synctest a sleeper
// beside goroutines that wait for the shard never wakes.
func wait(tries int) {
	if tries >= 20 {
		runtime.Gosched()
		return
	}
	for range 200 {
		pause()
	}
}

// pause takes about a nanosecond. The loop of wait would be empty without a call.
//
//go:noinline
func pause() {}

// Key is the key of a history in a group, as the table looks for it. A key of more than
// inlineKey bytes is compared by its text as well.
type Key struct {
	hash   uint64
	state  uint64 // the state of an unlocked slot with the key
	lo, hi uint64 // its bytes as two little-endian words, or the first eight and 0
}

// inlineKey is the most bytes of a key that fit its slot.
const inlineKey = 16

// longSize stands for the size of a key that does not fit its slot.
const longSize = inlineKey + 1

// fold is the step of a hash: it multiplies, and folds both halves of the product together, as
// wyhash does. The table's seeds make hashes that callers cannot foresee, so that an attacker
// cannot choose keys that collide.
func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

// Text is the part of a Key that does not depend on the group.
type Text struct{ hash, size, lo, hi uint64 }

// Text returns the key with these bytes for any group.
func (t *Table) Text(s string) (k Text) {
	n := len(s)
	b := unsafe.Slice(unsafe.StringData(s), n)
	switch {
	case n > inlineKey:
		return t.longText(b)
	case n >= 8: // the last words overlap those before
		k.lo, k.hi = word.Uint64(b), word.Uint64(b[n-8:])>>(8*(16-n))
	case n >= 4:
		k.lo = uint64(word.Uint32(b)) | uint64(word.Uint32(b[n-4:]))>>(8*(8-n))<<32
	case n > 0:
		k.lo = uint64(b[0]) | uint64(b[n/2])<<(8*(n/2)) | uint64(b[n-1])<<(8*(n-1))
	}
	k.size = uint64(n)
	k.hash = fold(k.lo^t.seeds[0], k.hi^t.seeds[1])
	return k
}

var word = binary.LittleEndian

func (t *Table) longText(b []byte) Text {
	h := uint64(len(b))
	for i := 0; i < len(b); i += 16 {
		j := min(i, len(b)-16)
		h = fold(h^word.Uint64(b[j:])^t.seeds[0], word.Uint64(b[j+8:])^t.seeds[1])
	}
	return Text{h, longSize, word.Uint64(b), 0}
}

// In returns the key in a group, for a call on the engine's clock or at an instant of the
// caller.
func (k Text) In(t *Table, group uint32, isVirtual bool) Key {
	state := uint64(group)<<groupShift | k.size<<sizeShift | live
	h := fold(k.hash^state*hashOdd, t.seeds[2])
	state |= h << hashShift
	if isVirtual {
		state |= virtual
	}
	return Key{h, state, k.lo, k.hi}
}

// placeOf is the place of a slot among all, from the half of its hash that the slot keeps. The
// density of places doubles from the lowest to the highest. With an even density all blocks
// would be full at the same time, and as they grow they would leave as much memory as the table
// holds. Here some blocks grow at any time, in memory that others have left
// (TestGrowthLeavesLittleGarbage).
func placeOf(low uint32) uint32 {
	x := uint64(low)
	return uint32(x + x*(1<<hashShift-x)>>hashShift*11/32)
}

// OfBlock returns the key of the block of k. Its slot is in the shard of k, and its hash is that
// of k.
func (k Key) OfBlock() Key {
	k.state |= isBlock
	return k
}

// hashOdd is 2^64 / golden ratio.
const hashOdd = 0x9e3779b97f4a7c15

// Before reports whether k comes before other in the order in which slots are locked.
func (k *Key) Before(other *Key) bool {
	return k.hash < other.hash || k.hash == other.hash && k.state < other.state
}

// low is the part of the hash that finds the block and the group of tags in it.
func (k *Key) low() uint32 { return uint32(k.hash) }

func (k *Key) place() uint32 { return placeOf(k.low()) }

// tagOf is a byte of a hash that the block keeps for each slot.
func tagOf(hash uint64) uint8 { return liveTag | uint8(hash>>32) }

// has reports whether a slot, the state of which fits the key, has the key with that text. The
// caller has locked the slot or the shard.
func (s *Shard) has(slot *Slot, k *Key, text string) bool {
	if len(text) > inlineKey {
		return string(s.long(slot)) == text
	}
	return slot.lo == k.lo && slot.hi == k.hi
}

// long returns the bytes of a key that does not fit the slot.
func (s *Shard) long(slot *Slot) []byte {
	run, size := slot.longKey()
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.Arena.Words(run)))), size)
}

// longKey returns the run and the size of a key that does not fit the slot.
func (slot *Slot) longKey() (run window.Run, size int) {
	return window.Run(slot.hi), int(slot.hi >> 32)
}

// setKey stores the key in a new slot, or reports false if there is no room for it.
func (s *Shard) setKey(slot *Slot, k Key, text string) bool {
	slot.lo, slot.hi = k.lo, k.hi
	if len(text) <= inlineKey {
		return true
	}
	run, ok := s.Arena.Alloc((len(text) + 3) / 4)
	if ok {
		slot.hi = uint64(run) | uint64(len(text))<<32
		copy(s.long(slot), text)
	}
	return ok
}

// AppendKey appends the bytes of the slot's key to b. The slot is locked.
func (s *Shard) AppendKey(b []byte, slot *Slot) []byte {
	n := slot.size()
	if n == longSize {
		return append(b, s.long(slot)...)
	}
	return word.AppendUint64(word.AppendUint64(b, slot.lo), slot.hi)[:len(b)+n]
}
