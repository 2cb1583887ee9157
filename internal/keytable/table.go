// Package keytable keeps histories in memory by key: shards with a lock each, lookup,
// records, expiry, and caps on keys and bytes. It has no policy, mode or clock; the
// instant is always an argument.
//
// A key takes one slot of 64 bytes in a block, so that the collector sees a few large blocks
// without pointers. The price: a history must be removed by hand, a slot moves when its block
// is split, and nothing is evicted before it expires. A map of pointers was four times as
// large, and the collector looked into every key.
package keytable

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/window"
)

// Table holds the histories of all keys. A caller locks the slots of its keys in the order of
// Key.Before. If a slot is missing, or more room is needed, the caller first locks the shards of
// all its keys. So a decision over several limits is atomic, and no caller that holds a slot
// waits for a shard. Start a Table with Init.
type Table struct {
	shards [shardCount]Shard // first, so that each begins on a cache line

	seeds             [3]uint64 // of hashes
	maxKeys, maxBytes int64     // 0 = no cap

	// retain[group] is the longest window that a group ever had, in microseconds.
	// Readers hold no lock: the slice grows behind its end or is replaced, and an
	// element that was read never changes.
	retain atomic.Pointer[[]int64]
	mu     sync.Mutex        // protects the following
	groups map[string]uint32 // numbers of groups by name

	spare [len(sizes)]sync.Pool // memory of blocks, by their size

	// The state of Reclaim, which the lock of its caller protects: the shard at which it goes on,
	// and the last instants of the engine's clock and of callers at which it found nothing.
	next              int
	vain, vainVirtual int64

	_     [64]byte // fields that each decision reads share no cache line with counters
	bytes atomic.Int64
	keys  atomic.Int64 // keys held, counted only under maxKeys
	_     [64]byte
}

// shardCount is 64, so that a set of shards is the bits of one word.
const (
	shardCount = 64
	shardShift = 64 - 6 // a hash shifted by it is the number of its shard
)

// Init makes the zero Table an empty one without caps.
func (t *Table) Init() {
	for i := range t.seeds {
		t.seeds[i] = rand.Uint64() | 1
	}
	t.groups = map[string]uint32{}
	t.retain.Store(&[]int64{})
	t.vain, t.vainVirtual = -1<<60, -1<<60
	for i := range t.shards {
		t.shards[i].Arena.Budget = t
	}
}

// SetCaps sets caps on the keys and bytes, 0 for none. keys is the number of keys held.
func (t *Table) SetCaps(maxKeys, maxBytes, keys int64) {
	t.maxKeys, t.maxBytes = maxKeys, maxBytes
	t.keys.Store(keys)
}

// Group returns the number of a group of histories, such as those of one limit. They are
// kept for the longest window that the group was ever given, in microseconds (R12). longer
// reports that they were kept for less so far.
func (t *Table) Group(name string, window int64) (group uint32, longer bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	retain := *t.retain.Load()
	group, known := t.groups[name]
	longer = known && retain[group] < window
	switch {
	case !known:
		group = uint32(len(retain))
		t.groups[name] = group
		retain = append(retain, window) // behind the end that readers have seen
	case longer:
		retain = slices.Clone(retain)
		retain[group] = window
	}
	t.retain.Store(&retain)
	return group, longer
}

// Find returns the number of the group of that name, if there is one.
func (t *Table) Find(name string) (group uint32, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	group, known = t.groups[name]
	return group, known
}

// Groups returns the names of all groups by their numbers.
func (t *Table) Groups() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names = make([]string, len(t.groups))
	for name, group := range t.groups {
		names[group] = name
	}
	return names
}

// Kept returns the time for which the histories of a group are kept.
func (t *Table) Kept(group uint32) int64 { return (*t.retain.Load())[group] }

// Shards is the number of shards.
const Shards = shardCount

// At returns a shard by its number, 0 … Shards-1.
func (t *Table) At(i int) *Shard { return &t.shards[i] }

// Shard returns the shard of a key.
func (t *Table) Shard(k *Key) *Shard { return &t.shards[k.hash>>shardShift] }

// Bit is the set of shards that holds only the shard of the key.
func (k *Key) Bit() uint64 { return 1 << (k.hash >> shardShift) }

// Lock locks a set of shards in ascending order, so that no two callers wait for each
// other.
func (t *Table) Lock(shards uint64) {
	for ; shards != 0; shards &= shards - 1 {
		t.shards[bits.TrailingZeros64(shards)].Lock()
	}
}

// Unlock unlocks a set of shards.
func (t *Table) Unlock(shards uint64) {
	for ; shards != 0; shards &= shards - 1 {
		t.shards[bits.TrailingZeros64(shards)].Unlock()
	}
}

// Len is the number of histories held, expired ones included.
func (t *Table) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		n += int(s.used)
		s.Unlock()
	}
	return n
}

// Bytes is the memory that the table and its users have taken.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// Caps are the caps on keys and bytes, 0 for none.
func (t *Table) Caps() (keys, bytes int64) { return t.maxKeys, t.maxBytes }

// Take reports whether n more bytes fit the cap, and if so counts them.
func (t *Table) Take(n int) bool { return t.TakeAbove(0, n) }

// TakeAbove is Take for bytes that may exceed the cap by spare.
func (t *Table) TakeAbove(spare int64, n int) bool {
	if t.maxBytes > 0 {
		return addWithin(&t.bytes, int64(n), t.maxBytes+spare)
	}
	t.bytes.Add(int64(n))
	return true
}

// Give returns n bytes.
func (t *Table) Give(n int) { t.bytes.Add(-int64(n)) }

// TakeKeys reports whether n more keys fit the cap, and if so counts them.
func (t *Table) TakeKeys(n int) bool { return t.TakeKeysAbove(0, n) }

// TakeKeysAbove is TakeKeys for keys that may exceed the cap by spare.
func (t *Table) TakeKeysAbove(spare int64, n int) bool {
	return t.maxKeys == 0 || addWithin(&t.keys, int64(n), t.maxKeys+spare)
}

// GiveKeys returns n keys.
func (t *Table) GiveKeys(n int) {
	if t.maxKeys > 0 {
		t.keys.Add(-int64(n))
	}
}

// addWithin adds n to v if the sum is at most most. v never exceeds most in between, which
// would reject other callers.
func addWithin(v *atomic.Int64, n, most int64) bool {
	for {
		before := v.Load()
		if before+n > most {
			return false
		}
		if v.CompareAndSwap(before, before+n) {
			return true
		}
	}
}

// Shard is the part of the keys under one lock. Each history has the lock of its slot besides.
// A caller that has locked a slot waits for no shard.
//
// The fields that Find reads come first. Decisions that need no lock of the shard change no
// field of that cache line.
type Shard struct {
	directory atomic.Pointer[directory] // nil if there are no slots
	Arena     window.Arena              // the entries of the histories, and long keys

	sync.Mutex        // protects the following, and changes of directory and Arena
	used       int32  // slots with a key
	blockSlots int32  // of these, slots with the block of a key
	hand       uint32 // the place at which the sweep goes on
	handGroup  uint32 // the group in that block

	ahead map[identity]*ahead // the appointments of histories that have any, or nil
}

// Lock locks the shard. It tries for about a microsecond, the time for which others hold the
// lock, before the caller parks. A parked caller waits much longer if all processors are busy:
// it runs when the goroutine that unlocks the shard parks or yields.
func (s *Shard) Lock() {
	for range 100 {
		if s.TryLock() {
			return
		}
		for range 10 {
			pause()
		}
	}
	s.Mutex.Lock()
}

// Len is the number of slots with a key.
func (s *Shard) Len() int { return int(s.used) }

// Hashes is the number of places of slots, which Visit visits in their order.
const Hashes uint64 = 1 << 32

// Visit calls visit with about n slots from a place on, each locked, and returns the next
// place. The shard is locked. It may be unlocked between two visits: visits of all places see
// each slot that stays, because a slot that moves keeps its place.
func (s *Shard) Visit(place uint64, n int, visit func(*Slot)) (next uint64) {
	d := s.directory.Load()
	if d == nil {
		return Hashes
	}
	b := d.block(uint32(place))
	rest := 32 - b.state().depth
	end := (place>>rest + 1) << rest
	end = min(end, place+max(Hashes/uint64(s.used+1)*uint64(n), 1))
	for slot := range b.live {
		if at := uint64(slot.place()); place <= at && at < end {
			slot.Lock()
			visit(slot)
			slot.Unlock()
		}
	}
	return end
}
