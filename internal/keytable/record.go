package keytable

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/window"
)

// inlineKey is the size of a key that fits its record. It fills the record up to 64
// bytes, a cache line.
const inlineKey = 17

const recordSize = 64

// Record is one history with the key it belongs to.
type Record struct {
	window.History
	group   uint32
	size    uint16 // bytes of the key
	Virtual bool   // the newest entries were recorded at instants that callers passed
	key     [inlineKey]byte
}

// Link returns the reference that a free record keeps.
func (r *Record) Link() *uint32 { return &r.group }

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
	r.size = uint16(len(key))
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
	if int(r.size) <= inlineKey {
		return
	}
	for ref := r.longKey(); ref != 0; {
		next := *a.At(ref).Link()
		a.Free(ref)
		ref = next
	}
}

// longKeyIs reports whether the chunks from ref on hold key, whose size is right.
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
