package weir

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/window"
)

// inlineKey is the size of a key that fits its record. It fills the record up to
// 64 bytes, a cache line.
const inlineKey = 17

const recordSize = 64

// record is one history with the key it belongs to.
type record struct {
	window.History
	limit   uint32
	size    uint16 // bytes of the key's encoding
	virtual bool   // its entries were recorded at instants the caller passed
	key     [inlineKey]byte
}

// Link returns the reference a free record keeps.
func (r *record) Link() *uint32 { return &r.limit }

// A key is encoded as the values the limit counts by. A single value stands as
// it is; of several, each follows its length in two bytes. The limit fixes the
// number of values, so no two keys share an encoding (R14).

const lengthBytes = 2

// keySize is the size of the encoding.
func keySize(by []int, k *Key) int {
	if len(by) == 1 {
		return len(k.value(by[0]))
	}
	n := 0
	for _, i := range by {
		n += lengthBytes + len(k.value(i))
	}
	return n
}

// encodeKey appends the encoding to b.
func encodeKey(b []byte, by []int, k *Key) []byte {
	if len(by) == 1 {
		return append(b, k.value(by[0])...)
	}
	for _, i := range by {
		v := k.value(i)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(v)))
		b = append(b, v...)
	}
	return b
}

// holds reports whether the record belongs to the key, other than the short ones
// that find compares itself. scratch is overwritten.
func (r *record) holds(a *window.Arena, l *memoryLimit, k *Key, scratch *[]byte) bool {
	if len(l.by) == 0 {
		return true
	}
	if keySize(l.by, k) != int(r.size) {
		return false
	}
	if l.sole >= 0 {
		return longKeyIs(a, r.longKey(), k.value(l.sole))
	}
	*scratch = encodeKey((*scratch)[:0], l.by, k)
	if len(*scratch) <= inlineKey {
		return string(r.key[:len(*scratch)]) == string(*scratch)
	}
	return longKeyIs(a, r.longKey(), *scratch)
}

// longKey is the reference of the first chunk of a key that does not fit the
// record.
func (r *record) longKey() uint32 { return binary.LittleEndian.Uint32(r.key[:]) }

// longKeyBytes is how much of a long key a chunk holds.
const longKeyBytes = window.WordsPerChunk * wordBytes

// keyChunks is the number of chunks a key of that size needs.
func keyChunks(size int) int {
	if size <= inlineKey {
		return 0
	}
	return (size + longKeyBytes - 1) / longKeyBytes
}

// setKey stores the encoded key; the arena has keyChunks in reserve.
func (r *record) setKey(a *window.Arena, key []byte) {
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

// freeKey gives the chunks of a long key back.
func (r *record) freeKey(a *window.Arena) {
	if int(r.size) <= inlineKey {
		return
	}
	for ref := r.longKey(); ref != 0; {
		next := *a.At(ref).Link()
		a.Free(ref)
		ref = next
	}
}

// longKeyIs reports whether the chunks from ref on hold key, whose size is known
// to be right.
func longKeyIs[T string | []byte](a *window.Arena, ref uint32, key T) bool {
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
func wordAt[T string | []byte](s T, i int) (w uint32) {
	if i+wordBytes <= len(s) {
		return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
	}
	for j := i; j < len(s); j++ {
		w |= uint32(s[j]) << (8 * (j - i))
	}
	return w
}
