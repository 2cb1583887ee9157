package suggest

import (
	"hash/maphash"
)

// keys numbers distinct keys from 0, and counts their requests. A map of strings would need
// three times the memory.
type keys struct {
	seed   maphash.Seed
	slots  []uint32 // number + 1, by hash; 0 = free
	blocks [][]key
	n      int
	text   blocks
}

// key is one key.
type key struct {
	place uint32 // of its text
	size  uint32 // of its text
	count uint32 // of its requests
}

const (
	keyBytes   = 12
	keyBlock   = 1 << 12 // keys of a block
	firstSlots = 1 << 12
	textBlock  = 1 << 18 // bytes of a block of texts
	eventBlock = 1 << 18 // bytes of a block of requests
)

func newKeys() *keys {
	return &keys{seed: maphash.MakeSeed(), slots: make([]uint32, firstSlots), text: blocks{size: textBlock}}
}

// at returns a key by its number.
func (k *keys) at(number uint32) *key { return &k.blocks[number/keyBlock][number%keyBlock] }

// name returns the text of a key.
func (k *keys) name(number uint32) []byte {
	at := k.at(number)
	return k.text.at(at.place)[:at.size]
}

// number returns the number of a key, a new one if it is not there yet.
func (k *keys) number(text []byte) uint32 {
	mask := uint64(len(k.slots) - 1)
	slot := maphash.Bytes(k.seed, text) & mask
	for ; k.slots[slot] != 0; slot = (slot + 1) & mask {
		if number := k.slots[slot] - 1; string(k.name(number)) == string(text) {
			return number
		}
	}
	if k.n%keyBlock == 0 {
		k.blocks = append(k.blocks, make([]key, keyBlock))
	}
	number := uint32(k.n)
	k.n++
	*k.at(number) = key{place: k.text.add(text), size: uint32(len(text))}
	k.slots[slot] = number + 1
	if k.n > len(k.slots)/4*3 {
		k.grow()
	}
	return number
}

// grow doubles the number of slots.
func (k *keys) grow() {
	k.slots = make([]uint32, 2*len(k.slots))
	mask := uint64(len(k.slots) - 1)
	for number := range uint32(k.n) {
		slot := maphash.Bytes(k.seed, k.name(number)) & mask
		for k.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		k.slots[slot] = number + 1
	}
}

// bytes returns the memory of all keys.
func (k *keys) bytes() int64 {
	return 4*int64(len(k.slots)) + keyBytes*keyBlock*int64(len(k.blocks)) + k.text.bytes()
}

// blocks is a text in blocks of equal size, so that it grows without copies. A text of add
// is within one block.
type blocks struct {
	size int
	all  [][]byte
}

// add appends a text of at most size bytes and returns its place.
func (b *blocks) add(text []byte) uint32 {
	last := len(b.all) - 1
	if last < 0 || len(b.all[last])+len(text) > b.size {
		b.all = append(b.all, make([]byte, 0, b.size))
		last++
	}
	place := uint32(last*b.size + len(b.all[last]))
	b.all[last] = append(b.all[last], text...)
	return place
}

// at returns the text from a place to the end of its block.
func (b *blocks) at(place uint32) []byte {
	return b.all[int(place)/b.size][int(place)%b.size:]
}

// bytes returns the memory of all blocks.
func (b *blocks) bytes() int64 { return int64(len(b.all)) * int64(b.size) }
