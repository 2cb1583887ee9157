package replay

import "hash/maphash"

const (
	internSlots = 1 << 14
	internBytes = 64 // longer strings are not kept
)

// interner hands out strings for bytes without allocating where the same bytes
// came by lately. One slot per hash and no chains: it forgets rather than grows,
// and never holds more than 1.3 MiB.
type interner struct {
	seed  maphash.Seed
	slots [internSlots]string
}

func newInterner() *interner { return &interner{seed: maphash.MakeSeed()} }

// string returns b as a string. A nil interner remembers nothing.
func (t *interner) string(b []byte) string {
	if t == nil || len(b) > internBytes {
		return string(b)
	}
	slot := &t.slots[maphash.Bytes(t.seed, b)%internSlots]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// again returns b as a string, last when that is what it was: lines that follow
// each other mostly name the same policy and dimensions.
func (t *interner) again(b []byte, last *string) string {
	if *last != string(b) {
		*last = t.string(b)
	}
	return *last
}
