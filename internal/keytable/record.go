package keytable

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/window"
)

// inlineKey is the size of a key that fits its record. It fills the record up to 64
// bytes, a cache line.
const inlineKey = 16

const recordSize = 64

// Record is one history with the key it belongs to. Its memory stays that of a record, so a
// caller can lock one that it found without the lock of the shard (Shard.Acquire).
type Record struct {
	window.History // the lock of the record protects it
	group          uint32
	state          atomic.Uint32
	key            [inlineKey]byte
}

// The state of a record is 0 while it belongs to no key. Otherwise it is live and the size
// of the key in bytes, above sizeShift. Only the holder of the lock changes it.
const (
	locked  = 1 << iota
	live    // the record belongs to a key
	virtual // the newest entries were recorded at instants that callers passed

	sizeShift = 16
)

// stateOf returns the state of an unlocked record.
func stateOf(size int, isVirtual bool) uint32 {
	state := uint32(size)<<sizeShift | live
	if isVirtual {
		state |= virtual
	}
	return state
}

// size is the number of bytes of the key.
func (r *Record) size() int { return int(r.state.Load() >> sizeShift) }

// Virtual reports whether the newest entries were recorded at instants that callers passed.
func (r *Record) Virtual() bool { return r.state.Load()&virtual != 0 }

// setVirtual is for the holder of the lock.
func (r *Record) setVirtual(isVirtual bool) { r.state.Store(stateOf(r.size(), isVirtual) | locked) }

// Lock locks the record of a locked shard.
func (r *Record) Lock() {
	for tries := 0; ; tries++ {
		if state := r.state.Load(); state&locked == 0 && r.state.CompareAndSwap(state, state|locked) {
			return
		}
		wait(tries)
	}
}

// LockLive locks the record unless it was removed, and reports whether it has. It needs no
// lock of the shard. The record may have another key by now.
func (r *Record) LockLive() bool {
	for tries := 0; ; tries++ {
		switch state := r.state.Load(); {
		case state == 0:
			return false
		case state&locked == 0 && r.state.CompareAndSwap(state, state|locked):
			return true
		}
		wait(tries)
	}
}

// lockAs locks the record if it has that state, apart from its lock, and reports whether it
// has. It needs no lock of the shard. A load first would fetch the cache line twice.
func (r *Record) lockAs(state uint32) bool {
	return r.state.CompareAndSwap(state, state|locked) || r.waitAs(state)
}

// waitAs is lockAs if the first try fails. lockAs alone is inlined.
func (r *Record) waitAs(state uint32) bool {
	for tries := 0; r.state.Load()&^locked == state; tries++ {
		if r.state.CompareAndSwap(state, state|locked) {
			return true
		}
		wait(tries)
	}
	return false
}

// Unlock unlocks the record, or nothing if it was removed.
func (r *Record) Unlock() { r.state.Store(r.state.Load() &^ locked) }

// wait lets the holder of a lock go on, which often needs less than a microsecond. If it
// needs more or does not run, the caller yields to it. It never sleeps: the caller may hold a
// shard, and in a bubble of testing/synctest a sleeper beside goroutines that wait for the
// shard never wakes.
func wait(tries int) {
	if tries >= 100 {
		runtime.Gosched()
	}
}

// Link returns the reference that a free record keeps.
func (r *Record) Link() *uint32 { return &r.group }

// Group returns the number of the group that the history belongs to (Table.Group).
func (r *Record) Group() uint32 { return r.group }

// AppendKey appends the key to b. The record is in the shard and locked.
func (s *Shard) AppendKey(b []byte, r *Record) []byte {
	size := r.size()
	if size <= inlineKey {
		return append(b, r.key[:size]...)
	}
	end := len(b) + size
	for ref := r.longKey(); len(b) < end; {
		c := s.Arena.At(ref)
		for _, word := range c.Words() {
			b = binary.LittleEndian.AppendUint32(b, word)
		}
		b = b[:min(len(b), end)]
		ref = *c.Link()
	}
	return b
}

// longKey is the reference of the first chunk of a key that does not fit the record.
func (r *Record) longKey() uint32 { return binary.LittleEndian.Uint32(r.key[:]) }

// longKeyBytes is the number of bytes of a long key in a chunk.
const longKeyBytes = window.WordsPerChunk * wordBytes

// KeyChunks is the number of chunks that a key of that size needs.
func KeyChunks(size int) int {
	if size <= inlineKey {
		return 0
	}
	return (size + longKeyBytes - 1) / longKeyBytes
}

// setKey stores the key; the arena has KeyChunks in reserve.
func setKey[K string | []byte](r *Record, a *window.Arena, key K) {
	if len(key) <= inlineKey {
		copy(r.key[:], key)
		return
	}
	var next uint32
	for start := (len(key) - 1) / longKeyBytes * longKeyBytes; start >= 0; start -= longKeyBytes {
		ref := a.Alloc()
		c := a.At(ref)
		*c.Link() = next
		for i := 0; i*wordBytes < longKeyBytes && start+i*wordBytes < len(key); i++ {
			c.Words()[i] = wordAt(key, start+i*wordBytes)
		}
		next = ref
	}
	binary.LittleEndian.PutUint32(r.key[:], next)
}

// freeKey frees the chunks of a long key.
func (r *Record) freeKey(a *window.Arena) {
	if r.size() <= inlineKey {
		return
	}
	for ref := r.longKey(); ref != 0; {
		next := *a.At(ref).Link()
		a.Free(ref)
		ref = next
	}
}

// keyIs reports whether the record has that key, of the right size.
func keyIs[K string | []byte](r *Record, a *window.Arena, key K) bool {
	if len(key) <= inlineKey {
		return string(r.key[:len(key)]) == string(key)
	}
	return longKeyIs(a, r.longKey(), key)
}

// longKeyIs reports whether the chunks from ref on hold key, of the right size.
func longKeyIs[K string | []byte](a *window.Arena, ref uint32, key K) bool {
	for start := 0; start < len(key); start += longKeyBytes {
		c := a.At(ref)
		words := c.Words()
		for i := 0; i < len(words) && start+i*wordBytes < len(key); i++ {
			if words[i] != wordAt(key, start+i*wordBytes) {
				return false
			}
		}
		ref = *c.Link()
	}
	return true
}

const wordBytes = 4

// wordAt returns up to four bytes of s from i on as one word, the first lowest.
func wordAt[K string | []byte](s K, i int) (w uint32) {
	if i+wordBytes <= len(s) {
		return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
	}
	for j := i; j < len(s); j++ {
		w |= uint32(s[j]) << (8 * (j - i))
	}
	return w
}
