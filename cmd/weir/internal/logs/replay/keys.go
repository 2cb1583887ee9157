package replay

import (
	"hash/maphash"
	"strings"
)

// Keys numbers distinct encoded keys from 0 and holds a value for each. Nothing in it has a pointer
// for each key: with millions of keys, a map of strings took twice the memory, and the garbage
// collector most of the time. The zero Keys is empty.
type Keys[V any] struct {
	seed    maphash.Seed
	numbers map[uint32]uint32 // by hash; if the hash of a key is taken, it has the next free one
	keys    []keyOf[V]
	texts   []*strings.Builder // parts of textPart bytes, which are never moved
}

// keyOf is a key: its value, and the place of its text. They stand together, because each of them
// is far from the memory of the key before.
type keyOf[V any] struct {
	value            V
	part, from, size uint32
}

const (
	// keyBytes is the memory of a key without its text and its value: 12 in keys, and about 16 in
	// numbers.
	keyBytes = 28

	textPart = 1 << 18 // bytes; a longer text has a part of its own
)

// Len returns the number of keys.
func (k *Keys[V]) Len() int { return len(k.keys) }

// Bytes returns the memory of all keys.
func (k *Keys[V]) Bytes() int64 {
	return keyBytes*int64(cap(k.keys)) + textPart*int64(len(k.texts))
}

// Value returns the value of the key with a number, which is valid until the next Add.
func (k *Keys[V]) Value(number int) *V { return &k.keys[number].value }

// Text returns the encoded key with a number.
func (k *Keys[V]) Text(number int) string {
	t := &k.keys[number]
	return k.texts[t.part].String()[t.from:][:t.size]
}

// find returns the number of a key, or -1 with the hash for a new one.
func (k *Keys[V]) find(text []byte) (number int, hash uint32) {
	if k.numbers == nil {
		k.seed = maphash.MakeSeed()
		k.numbers = map[uint32]uint32{}
	}
	for hash = uint32(maphash.Bytes(k.seed, text)); ; hash++ {
		number, taken := k.numbers[hash]
		switch {
		case !taken:
			return -1, hash
		case k.Text(int(number)) == string(text):
			return int(number), hash
		}
	}
}

// Add returns the number of a key, a new one if it is not there yet.
func (k *Keys[V]) Add(text []byte) int {
	number, hash := k.find(text)
	if number >= 0 {
		return number
	}
	last := len(k.texts) - 1
	if last < 0 || k.texts[last].Len()+len(text) > textPart {
		k.texts = append(k.texts, new(strings.Builder))
		last++
		k.texts[last].Grow(textPart)
	}
	texts := k.texts[last]
	number = len(k.keys)
	k.numbers[hash] = uint32(number)
	k.keys = append(k.keys, keyOf[V]{
		part: uint32(last),
		from: uint32(texts.Len()),
		size: uint32(len(text)),
	})
	texts.Write(text)
	return number
}
