package replay

import (
	"hash/maphash"
	"strings"
)

// logKeys are the keys of one policy with their counts. Nothing in it has a pointer for
// each key: with millions of keys, a map of strings took twice the memory, and the garbage
// collector most of the time.
type logKeys struct {
	seed  maphash.Seed
	index []uint32 // by hash, a power of two of slots: the number of a key + 1; 0 = none
	stats [][]keyStats
	names []*strings.Builder // parts of namePart bytes, which are never moved
	n     int
}

const (
	statsPart = 1 << 12 // keys
	namePart  = 1 << 20 // bytes; at least four times the longest line
)

// keyStats counts the decisions of one key.
type keyStats struct {
	allowed, denied int64
	firstDenied     int64
	hash            uint32
	part            uint16 // of the name
	from, size      uint32 // of the name in its part
}

// at returns a key by its number, 0 … n-1.
func (t *logKeys) at(i int) *keyStats { return &t.stats[i/statsPart][i%statsPart] }

// name returns the encoded key.
func (t *logKeys) name(k *keyStats) string {
	return t.names[k.part].String()[k.from:][:k.size]
}

// find returns a key, or the slot for a new one.
func (t *logKeys) find(name []byte) (k *keyStats, hash uint32, slot int) {
	if len(t.index) == 0 {
		t.seed, t.index = maphash.MakeSeed(), make([]uint32, 64)
	}
	hash = uint32(maphash.Bytes(t.seed, name))
	for slot = int(hash) & (len(t.index) - 1); t.index[slot] > 0; slot = (slot + 1) & (len(t.index) - 1) {
		if k := t.at(int(t.index[slot] - 1)); k.hash == hash && t.name(k) == string(name) {
			return k, hash, slot
		}
	}
	return nil, hash, slot
}

// add adds a key at a slot of find.
func (t *logKeys) add(name []byte, hash uint32, slot int) *keyStats {
	if t.n%statsPart == 0 {
		t.stats = append(t.stats, make([]keyStats, statsPart))
	}
	if p := len(t.names) - 1; p < 0 || t.names[p].Len()+len(name) > namePart {
		t.names = append(t.names, new(strings.Builder))
		t.names[p+1].Grow(namePart)
	}
	part := len(t.names) - 1
	names := t.names[part]
	k := &t.stats[t.n/statsPart][t.n%statsPart]
	*k = keyStats{hash: hash, part: uint16(part), from: uint32(names.Len()), size: uint32(len(name))}
	names.Write(name)
	t.n++
	t.index[slot] = uint32(t.n)
	if t.n > len(t.index)*3/4 {
		t.grow()
	}
	return k
}

// grow doubles the index.
func (t *logKeys) grow() {
	t.index = make([]uint32, 2*len(t.index))
	for i := range t.n {
		slot := int(t.at(i).hash) & (len(t.index) - 1)
		for t.index[slot] > 0 {
			slot = (slot + 1) & (len(t.index) - 1)
		}
		t.index[slot] = uint32(i + 1)
	}
}
