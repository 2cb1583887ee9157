package replay

import (
	"hash/maphash"
	"strings"
)

// Keys numbers distinct encoded keys from 0. Nothing in it has a pointer for each key: with
// millions of keys, a map of strings took twice the memory, and the garbage collector most
// of the time. The zero Keys is empty.
type Keys struct {
	seed  maphash.Seed
	index []uint32 // by hash, a power of two of slots: the number of a key + 1; 0 = none
	keys  []keyText
	texts []*strings.Builder // parts of textPart bytes, which are never moved
}

// keyText is the place of a key's text, and its hash.
type keyText struct {
	hash       uint32
	part       uint32
	from, size uint32
}

const (
	keyBytes = 16
	textPart = 1 << 18 // bytes; a longer text has a part of its own
)

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.keys) }

// Bytes returns the memory of all keys.
func (k *Keys) Bytes() int64 {
	return 4*int64(len(k.index)) + keyBytes*int64(cap(k.keys)) + textPart*int64(len(k.texts))
}

// Text returns the encoded key with a number.
func (k *Keys) Text(number int) string {
	t := &k.keys[number]
	return k.texts[t.part].String()[t.from:][:t.size]
}

// Find returns the number of a key, or -1.
func (k *Keys) Find(text []byte) int {
	number, _, _ := k.find(text)
	return number
}

// find returns the number of a key, or -1 with the slot for a new one.
func (k *Keys) find(text []byte) (number int, hash uint32, slot int) {
	if len(k.index) == 0 {
		k.seed, k.index = maphash.MakeSeed(), make([]uint32, 64)
	}
	hash = uint32(maphash.Bytes(k.seed, text))
	for slot = k.slot(hash); k.index[slot] > 0; slot = k.next(slot) {
		number := int(k.index[slot] - 1)
		if k.keys[number].hash == hash && k.Text(number) == string(text) {
			return number, hash, slot
		}
	}
	return -1, hash, slot
}

func (k *Keys) slot(hash uint32) int { return int(hash) & (len(k.index) - 1) }
func (k *Keys) next(slot int) int    { return (slot + 1) & (len(k.index) - 1) }

// Add returns the number of a key, a new one if it is not there yet.
func (k *Keys) Add(text []byte) int {
	number, hash, slot := k.find(text)
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
	k.keys = append(k.keys, keyText{hash, uint32(last), uint32(texts.Len()), uint32(len(text))})
	texts.Write(text)
	k.index[slot] = uint32(len(k.keys))
	if len(k.keys) > len(k.index)*3/4 {
		k.grow()
	}
	return len(k.keys) - 1
}

// grow doubles the index.
func (k *Keys) grow() {
	k.index = make([]uint32, 2*len(k.index))
	for i := range k.keys {
		slot := k.slot(k.keys[i].hash)
		for k.index[slot] > 0 {
			slot = k.next(slot)
		}
		k.index[slot] = uint32(i + 1)
	}
}
