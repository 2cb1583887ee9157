package keytable

import (
	"runtime"
	"sync/atomic"

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

	sizeShift  = 3 // 0 … inlineKey, or longSize
	groupShift = 8
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

// Virtual reports whether the newest entries were recorded at instants that callers passed.
func (slot *Slot) Virtual() bool { return slot.state.Load()&virtual != 0 }

// SetVirtual sets Virtual. The caller has locked the slot.
func (slot *Slot) SetVirtual(is bool) {
	state := slot.state.Load() &^ virtual
	if is {
		state |= virtual
	}
	slot.state.Store(state)
}

// fits reports whether the slot may have the key.
func (slot *Slot) fits(k Key) bool { return (slot.state.Load()^k.state)&^(locked|virtual) == 0 }

// TryLock locks the slot if its state is that of the key, and reports whether it is. The slot
// then may have the key, and its newest entries were recorded on the same clock. A caller
// without the lock of the shard compares the key afterwards, under the lock of the slot (Has).
func (slot *Slot) TryLock(k Key) bool {
	return slot.state.CompareAndSwap(k.state, k.state|locked) || slot.await(k.state)
}

// await is TryLock if the first try fails. TryLock alone is inlined.
func (slot *Slot) await(want uint64) bool {
	for tries := 0; ; tries++ {
		state := slot.state.Load()
		switch {
		case state&^locked != want:
			return false
		case state == want && slot.state.CompareAndSwap(state, state|locked):
			return true
		}
		wait(tries)
	}
}

// Release unlocks a slot that TryLock has locked, if its state has not changed since.
func (slot *Slot) Release(k Key) { storeRelease(&slot.state, k.state) }

// Lock locks a slot of a locked shard.
func (slot *Slot) Lock() {
	for tries := 0; ; tries++ {
		if state := slot.state.Load(); state&locked == 0 && slot.state.CompareAndSwap(state, state|locked) {
			return
		}
		wait(tries)
	}
}

// vacate waits until a slot of a locked shard is unlocked, takes its key, and returns its
// state. The caller then owns the content of the slot.
func (slot *Slot) vacate() (state uint64) {
	for tries := 0; ; tries++ {
		if state = slot.state.Load(); state&locked == 0 && slot.state.CompareAndSwap(state, 0) {
			return state
		}
		wait(tries)
	}
}

// Unlock unlocks the slot. It does nothing if the slot was removed.
func (slot *Slot) Unlock() { storeRelease(&slot.state, slot.state.Load()&^locked) }

// wait lets the holder of a lock go on, which often needs less than a microsecond. If it
// needs more or does not run, the caller yields to it. It never sleeps: the caller may hold a
// shard, and in a bubble of testing/synctest a sleeper beside goroutines that wait for the
// shard never wakes.
func wait(tries int) {
	if tries >= 100 {
		runtime.Gosched()
	}
}
