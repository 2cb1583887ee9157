package keytable

import (
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/window"
)

// Shard is the part of the keys under one lock. Each history has the lock of its slot besides.
// A caller that has locked a slot waits for no shard.
//
// The fields that Find reads come first. Decisions that need no lock of the shard change no
// field of that cache line.
type Shard struct {
	directory atomic.Pointer[directory] // nil if there are no slots
	Arena     window.Arena              // the entries of the histories, and long keys

	sync.Mutex        // protects the following, and changes of directory and Arena
	used       int    // slots with a key
	hand       uint32 // the hash at which the sweep goes on
	handGroup  uint32 // the group in that block
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
			nop()
		}
	}
	s.Mutex.Lock()
}

//go:noinline
func nop() {}

// Len is the number of slots with a key.
func (s *Shard) Len() int { return s.used }

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
		if at := uint64(slot.low()); place <= at && at < end {
			slot.Lock()
			visit(slot)
			slot.Unlock()
		}
	}
	return end
}
