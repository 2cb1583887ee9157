package keytable

import (
	"math/bits"
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/window"
)

// Key is the key of a history in a group, as the table looks for it. A key of more than
// inlineKey bytes is compared by its text as well.
type Key struct {
	hash   uint64
	state  uint64 // a slot with the key has it while unlocked
	lo, hi uint64 // the first and the last eight bytes, or all of them
}

// inlineKey is the most bytes of a key that fit its slot.
const inlineKey = 16

// longSize stands for the size of a key that does not fit its slot.
const longSize = inlineKey + 1

// hasher makes hashes that callers cannot foresee, so that an attacker cannot choose keys that
// collide: multiplications of which both halves are folded together, as in wyhash.
type hasher [3]uint64

func newHasher() (h hasher) {
	for i := range h {
		h[i] = rand.Uint64() | 1
	}
	return h
}

func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

// Text is the part of a Key that does not depend on the group.
type Text struct{ hash, size, lo, hi uint64 }

// Text returns the key with these bytes for any group.
func (t *Table) Text(s string) (k Text) {
	n := len(s)
	switch {
	case n > inlineKey:
		return t.longText(s)
	case n >= 8:
		k.lo, k.hi = load8(s, 0), load8(s, n-8)
	case n >= 4:
		k.lo = uint64(load4(s, 0)) | uint64(load4(s, n-4))<<32
	case n > 0:
		k.lo = uint64(s[0]) | uint64(s[n/2])<<8 | uint64(s[n-1])<<16
	}
	k.size = uint64(n)
	k.hash = fold(k.lo^t.seeds[0], k.hi^t.seeds[1]^k.size)
	return k
}

func (t *Table) longText(s string) Text {
	h := uint64(len(s))
	for i := 0; i < len(s); i += 16 {
		j := min(i, len(s)-16) // the last words overlap those before
		h = fold(h^load8(s, j)^t.seeds[0], load8(s, j+8)^t.seeds[1])
	}
	return Text{h, longSize, load8(s, 0), 0}
}

// In returns the key in a group, for a call on the engine's clock or at an instant of the
// caller.
func (k Text) In(t *Table, group uint32, isVirtual bool) Key {
	h := fold(k.hash^uint64(group)*hashOdd, t.seeds[2])
	state := h<<hashShift | uint64(group)<<groupShift | k.size<<sizeShift | live
	if isVirtual {
		state |= virtual
	}
	return Key{h, state, k.lo, k.hi}
}

// hashOdd is 2^64 / golden ratio.
const hashOdd = 0x9e3779b97f4a7c15

func load4(s string, i int) uint32 {
	s = s[i : i+4]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func load8(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// Before reports whether k comes before other in the order in which slots are locked.
func (k *Key) Before(other *Key) bool {
	return k.hash < other.hash || k.hash == other.hash && k.state < other.state
}

// low is the part of the hash that finds the block and the group of tags in it.
func (k *Key) low() uint32 { return uint32(k.hash) }

// tagOf is a byte of a hash that the block keeps for each slot.
func tagOf(hash uint64) uint8 { return liveTag | uint8(hash>>32) }

// Has reports whether a slot has the key with that text. Its state was found to fit. The
// caller has locked the slot, or the shard.
func (s *Shard) Has(slot *Slot, k Key, text string) bool {
	return slot.lo == k.lo && slot.hi == k.hi || len(text) > inlineKey && s.hasLong(slot, text)
}

func (s *Shard) hasLong(slot *Slot, text string) bool {
	run, size := slot.longKey()
	if size != len(text) {
		return false
	}
	words := s.Arena.Words(run)
	for i := range size {
		if byte(words[i/4]>>(i%4*8)) != text[i] {
			return false
		}
	}
	return true
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
	if !ok {
		return false
	}
	words := s.Arena.Words(run)
	clear(words)
	for i := range len(text) {
		words[i/4] |= uint32(text[i]) << (i % 4 * 8)
	}
	slot.hi = uint64(run) | uint64(len(text))<<32
	return true
}

// AppendKey appends the bytes of the slot's key to b. The slot is locked.
func (s *Shard) AppendKey(b []byte, slot *Slot) []byte {
	n := slot.size()
	if n == longSize {
		run, size := slot.longKey()
		words := s.Arena.Words(run)
		for i := range size {
			b = append(b, byte(words[i/4]>>(i%4*8)))
		}
		return b
	}
	from := len(b)
	for i := range min(n, 8) {
		b = append(b, byte(slot.lo>>(i*8)))
	}
	switch key := b[from:]; {
	case n >= 8:
		for i := range n - 8 {
			b = append(b, byte(slot.hi>>((16-n+i)*8)))
		}
	case n >= 4:
		for i := range n - 4 {
			key[4+i] = byte(slot.lo >> (32 + (8-n+i)*8))
		}
	}
	return b
}
