package keytable

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
)

// equal reports whether two keys are the same to a table: in their bytes and groups, with any
// hashes.
func (k *named) equal(other *named) bool {
	const group = 1<<hashShift - 1
	return k.lo == other.lo && k.hi == other.hi && k.state&group == other.state&group && k.text == other.text
}

// alike returns a key of that size and keys that differ little from it: in one byte, at one end,
// by a byte more or less, by bytes that changed places.
func alike(size int) (all []string) {
	base := []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")[:size]
	all = append(all, string(base))
	for i := range base {
		for _, x := range []byte{0, 1, 0x80, 'z', 0xff} {
			b := slices.Clone(base)
			b[i] = x
			all = append(all, string(b))
		}
		b := slices.Clone(base)
		j := (i + 1) % size
		b[i], b[j] = b[j], b[i]
		all = append(all, string(b), string(slices.Delete(slices.Clone(base), i, i+1)))
	}
	for _, x := range []byte{0, 1, 'a'} {
		all = append(all, string(base)+string(x), string(x)+string(base), strings.Repeat(string(x), size), strings.Repeat(string(x), size+1))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestDifferentKeysDiffer: no two keys that look alike are the same key, even if their hashes
// are equal, nor is a key the same in two groups.
func TestDifferentKeysDiffer(t *testing.T) {
	table := newTable(0, 0, 2)
	groups := []uint32{0, 1}
	for _, group := range groups {
		table.Group(fmt.Sprint(group), 1000)
	}
	for size := range 41 {
		var keys []named
		var texts []string
		for _, text := range alike(size) {
			for _, group := range groups {
				keys, texts = append(keys, table.named(group, text)), append(texts, text)
			}
		}
		for i := range keys {
			for j := range i {
				if keys[i].equal(&keys[j]) {
					t.Fatalf("%q and %q are the same key", texts[i], texts[j])
				}
				if keys[i].hash == keys[j].hash {
					t.Fatalf("%q and %q have the same hash", texts[i], texts[j])
				}
				if keys[i].Before(&keys[j].Key) == keys[j].Before(&keys[i].Key) || keys[i].Before(&keys[i].Key) {
					t.Fatalf("%q and %q have no order", texts[i], texts[j])
				}
			}
		}
		// With one hash, a search compares the keys.
		s := table.At(0)
		const most = 100 // so that they fit a block
		for from := 0; from < len(keys); from += most {
			some := keys[from:min(from+most, len(keys))]
			slots := map[*Slot]int{}
			for i := range some {
				some[i].setHash(7)
				if s.Lookup(some[i].Key, some[i].text) != nil {
					t.Fatalf("%q is found before it is inserted", texts[from+i])
				}
				if !s.Reserve(table, some[i].Key, 1) {
					t.Fatal("no room")
				}
				s.Insert(some[i].Key, some[i].text).Unlock()
			}
			for i := range some {
				slot := s.Lookup(some[i].Key, some[i].text)
				if before, twice := slots[slot]; slot == nil || twice {
					t.Fatalf("%q is found in slot %p, of %q", texts[from+i], slot, texts[from+before])
				}
				slots[slot] = i
				if got := string(s.AppendKey(nil, slot)); got != texts[from+i] {
					t.Fatalf("%q is read as %q", texts[from+i], got)
				}
			}
			for i := range some {
				slot := s.Lookup(some[i].Key, some[i].text)
				slot.Lock()
				s.Remove(table, some[i].Key, slot)
				if s.Lookup(some[i].Key, some[i].text) != nil || s.acquired(some[i]) != nil {
					t.Fatalf("%q is found after it was removed", texts[from+i])
				}
			}
		}
	}
	table.Sweep(0)
	assert.Equal(t, table.Bytes(), 0, "bytes that are left")
}

// TestHashesAreSpread: keys that count up, of all lengths, are spread evenly over shards, groups
// and tags. Over blocks they are spread by the density.
func TestHashesAreSpread(t *testing.T) {
	table := newTable(0, 0, 3)
	for _, prefix := range []string{"", "user-", strings.Repeat("x", 12), strings.Repeat("x", 13), strings.Repeat("x", 100)} {
		const keys = 64_000
		var shards [shardCount]int
		var blocks [64]int // keys in each block of a directory of 64 places
		homes := make([]int, fullGroups)
		var tags [128]int
		d, b := directory{shift: 32 - 6}, block{groups: fullGroups}
		for i := range keys {
			k := table.named(5, prefix+fmt.Sprintf("%04x", i))
			shards[k.hash>>shardShift]++
			blocks[k.place()>>d.shift]++
			homes[b.home(k.low())]++
			tags[tagOf(k.hash)&0x7f]++
		}
		for i := range blocks { // the keys that an even density would have there
			share := evened(uint64(i+1)<<26) - evened(uint64(i)<<26)
			blocks[i] = int(float64(blocks[i]) / share / float64(len(blocks)))
		}
		for name, counts := range map[string][]int{"shards": shards[:], "blocks": blocks[:], "homes": homes, "tags": tags[:]} {
			want := keys / len(counts)
			if least, most := slices.Min(counts), slices.Max(counts); 4*least < 3*want || 4*most > 5*want {
				t.Errorf("%q: %d to %d keys in one of %d %s, want about %d", prefix, least, most, len(counts), name, want)
			}
		}
	}
}

// evened returns the part of all hashes that have a place below an end.
func evened(end uint64) float64 {
	const all = 1 << hashShift
	return float64(sort.Search(all, func(low int) bool { return uint64(placeOf(uint32(low))) >= end })) / all
}

// TestPlacesAreUneven: places have the order of the halves of hashes, so that no two are
// exchanged, and their density doubles.
func TestPlacesAreUneven(t *testing.T) {
	const all, step = uint64(1) << hashShift, uint64(1) << 20
	for low := uint64(0); low < all; low += step {
		next := min(low+step, all-1)
		if placeOf(uint32(low)) >= placeOf(uint32(next)) {
			t.Errorf("%#x and %#x become %#x and %#x", low, next, placeOf(uint32(low)), placeOf(uint32(next)))
		}
	}
	lowest, highest := evened(all/64), 1-evened(all-all/64)
	if ratio := highest / lowest; ratio < 1.9 || ratio > 2.1 {
		t.Errorf("the highest places have %.2f times as many keys as the lowest, want twice as many", ratio)
	}
}
