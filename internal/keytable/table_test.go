package keytable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/memstats"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// newTable returns an empty table. Its hashes depend on the seed alone.
func newTable(maxKeys, maxBytes int64, seed uint64) *Table {
	t := &Table{}
	t.Init()
	t.SetCaps(maxKeys, maxBytes, 0)
	r := rand.New(rand.NewPCG(seed, 9))
	for i := range t.seeds {
		t.seeds[i] = r.Uint64() | 1
	}
	return t
}

// numbered returns a key of eight bytes.
func numbered(i int) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(i)))
}

// named is a key with its text.
type named struct {
	Key
	text string
}

// named returns a key in a group, on the engine's clock.
func (t *Table) named(group uint32, text string) named {
	return named{t.Text(text).In(t, group, false), text}
}

// first returns a key as if its hash had chosen the first shard.
func (t *Table) first(group uint32, text string) named {
	k := t.named(group, text)
	k.hash &= 1<<shardShift - 1
	return k
}

// fullGroups are the groups of the largest block.
var fullGroups = sizes[len(sizes)-1]

// setHash gives a key another hash.
func (k *Key) setHash(hash uint64) {
	k.hash = hash
	k.state = k.state&(1<<hashShift-1) | uint64(uint32(hash))<<hashShift
}

// insert adds a key to the shard and returns its slot, locked.
func (s *Shard) insert(t testing.TB, table *Table, k *named) *Slot {
	t.Helper()
	if !s.Reserve(table, k.Key, 1) {
		t.Fatal("no room")
	}
	slot := s.Insert(k.Key, k.text)
	if slot == nil {
		t.Fatal("no room for a long key")
	}
	return slot
}

// TestSizes holds slots and shards to the sizes that their comments claim.
func TestSizes(t *testing.T) {
	assert.Equal(t, unsafe.Sizeof(Slot{}), slotBytes, "bytes of a slot")
	if got := unsafe.Sizeof(Shard{}); got%64 != 0 && unsafe.Sizeof(got) == 8 {
		t.Errorf("a shard has %d bytes, want whole cache lines", got)
	}
	for _, groups := range sizes {
		if most := mostOf(groups); most >= int(groups)*groupSlots {
			t.Errorf("a block of %d groups is full with %d slots: a search of it would not end", groups, most)
		}
	}
	for _, groups := range sizes[6:] { // the memory of these fills size classes, or pages
		if got := int(groups) * groupSlots * slotBytes; !slices.Contains([]int{6144, 9728, 14336, 20480, 28672}, got) && got%8192 != 0 {
			t.Errorf("the slots of %d groups have %d bytes", groups, got)
		}
	}
}

// TestRemovedSlotsAreNotLocked: a caller that found a slot before its key was removed does
// not wait for it, nor lock it, also if another key is there (R10).
func TestRemovedSlotsAreNotLocked(t *testing.T) {
	table := newTable(0, 0, 1)
	group, _ := table.Group("limit", 1000)
	s, key, other := table.At(0), table.first(0, "key"), table.first(0, "other")
	_ = group
	found := s.insert(t, table, &key)
	found.SetVirtual(true)
	if !found.Virtual() || found.state.Load()&locked == 0 {
		t.Errorf("state %x, want a locked one of callers' instants", found.state.Load())
	}
	s.Remove(table, key.Key, found)
	if found.Unlock(); found.tryLock(&key.Key) || found.state.Load() != 0 {
		t.Error("Lock has locked it")
	}
	other.setHash(key.hash) // so that it gets the same slot
	if slot := s.insert(t, table, &other); slot != found {
		t.Fatal("the slot is not used again")
	} else {
		slot.Unlock()
	}
	if s.acquired(key) != nil {
		t.Error("the slot has the removed key")
	}
}

// TestGroupKeepsItsLongestWindow: a history stays for the longest window of its group.
func TestGroupKeepsItsLongestWindow(t *testing.T) {
	table := newTable(0, 0, 1)
	s := table.At(0)
	group, _ := table.Group("g", 1000)
	for _, c := range []struct {
		name   string
		window int64
		same   bool
		longer bool
	}{{"other", 1, false, false}, {"g", 5000, true, true}, {"g", 10, true, false}, {"g", 5000, true, false}} {
		if got, longer := table.Group(c.name, c.window); got == group != c.same || longer != c.longer {
			t.Fatalf("%+v: got %d, %t beside %d", c, got, longer, group)
		}
	}
	k := table.first(group, "key")
	slot := s.insert(t, table, &k)
	add(s, slot, 100)
	slot.Unlock()
	assert.Equal(t, fmt.Sprint(table.Sweep(5099), table.Len()), "0 1", "removed and held before the longest window was over")
	assert.Equal(t, fmt.Sprint(table.Sweep(5100), table.Len(), table.Bytes()), "1 0 0", "removed, held and bytes after it")
}

// TestSweepKeepsTwoTimesApart: histories at instants of callers expire by such an instant alone,
// an hour late, and the others by the engine's clock alone. The newest attempt keeps a
// history, too.
func TestSweepKeepsTwoTimesApart(t *testing.T) {
	const window = 1000
	for _, c := range []struct {
		name          string
		virtual       bool
		entry, last   int64
		now           int64
		nowIsVirtual  bool
		want, inSteps bool // whether it is removed: by a sweep, by steps beside recordings
	}{
		{"counts", false, 100, 100, 1099, false, false, false},
		{"is over", false, 100, 100, 1100, false, true, false},
		{"was over for a second", false, 100, 100, 1100 + sweepLate, false, true, true},
		{"a newer attempt", false, 100, 500, 1499, false, false, false},
		{"a newer attempt is over", false, 100, 500, 1500, false, true, false},
		{"the other time", false, 100, 100, 1 << 50, true, false, false},
		{"of callers", true, 100, 100, 1 << 50, false, false, false},
		{"of callers, early", true, 100, 100, 1099 + VirtualSlack, true, false, false},
		{"of callers, over", true, 100, 100, 1100 + VirtualSlack, true, true, false},
		{"of callers, late", true, 100, 100, 1100 + VirtualSlack + sweepLate, true, true, true},
	} {
		for _, steps := range []bool{false, true} {
			table := newTable(0, 0, 1)
			group, _ := table.Group("g", window)
			s, k := table.At(0), table.first(group, "key")
			slot := s.insert(t, table, &k)
			slot.SetVirtual(c.virtual)
			add(s, slot, c.entry)
			slot.Last = c.last
			if got := s.Expired(table, slot, c.now); got != (c.want && !c.virtual) && !c.nowIsVirtual {
				t.Errorf("%s: expired is %t", c.name, got)
			}
			slot.Unlock()
			want := c.want
			if steps {
				want = c.inSteps
				for range 2 * s.slots() {
					s.SweepStep(table, c.now, c.nowIsVirtual)
				}
			} else {
				s.sweep(table, c.now, c.nowIsVirtual, s.slots())
			}
			assert.Equal(t, table.Len() == 0, want, "%s (by steps: %t): removed", c.name, steps)
		}
	}
}

// TestReclaim: a caller at a cap removes expired histories from its shards first, and then from
// the others by turns. After a Reclaim that found nothing, the next at the same instant looks
// at one group of slots, so that a flood of new keys costs little.
func TestReclaim(t *testing.T) {
	table := newTable(0, 0, 1)
	group, _ := table.Group("g", 1_000_000)
	const keys = 20_000
	for i := range keys {
		k := table.named(group, numbered(i))
		s := table.Shard(&k.Key)
		slot := s.insert(t, table, &k)
		add(s, slot, int64(i%2)*5_000_000)
		slot.Unlock()
	}
	assert.Equal(t, table.Reclaim(^uint64(0), 999_999, false), 0, "histories that count and are removed")
	shard := table.next
	for range 10 { // 10 groups, where each full look would pass a dozen shards
		table.Reclaim(0, 999_999, false)
	}
	if passed := (table.next - shard + shardCount) % shardCount; passed > 1 {
		t.Errorf("%d shards were swept in vain, at one instant", passed)
	}
	table.Reclaim(^uint64(0), 1_002_000, true) // finds nothing, which has no effect on the other time
	mine := table.At(5).Len() / 2
	if n := table.Reclaim(1<<5, 1_002_000, false); n < mine*3/4 {
		t.Errorf("%d removed, and about %d are over in the first shard", n, mine)
	}
	if n := table.At(5).Len(); n > mine*3/2 {
		t.Errorf("%d are left in the first shard, of which %d count", n, mine)
	}
	for i := 0; table.Len() > keys/2; i++ {
		if n := table.Reclaim(0, 1_002_000, false); n == 0 && i > 100 {
			t.Fatalf("%d keys are left", table.Len())
		}
	}
	if n := table.Reclaim(^uint64(0), 6_000_000, false); n == 0 {
		t.Error("the rest stays")
	}
}

// TestGrowthLeavesLittleGarbage: a growing table allocates hardly more than it holds, because a
// new block takes the memory that another one has left. So a cap on bytes bounds the memory of
// the process.
func TestGrowthLeavesLittleGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would drop the blocks that wait
	most := 1.25
	if race.Enabled {
		most = 2 // the race detector makes a sync.Pool drop some of them
	}
	table := newTable(0, 0, 1)
	group, _ := table.Group("g", 1000)
	before := memstats.Allocated()
	var key [8]byte
	for i := range uint64(race.Fewer(2_000_000)) {
		text := string(binary.LittleEndian.AppendUint64(key[:0], i))
		before += uint64(len(text))
		k := table.named(group, text)
		if s := table.Shard(&k.Key); !s.Reserve(table, k.Key, 1) {
			t.Fatal("no room")
		} else {
			s.Insert(k.Key, k.text).Unlock()
		}
		if n := i + 1; n >= 300_000 && n%100_000 == 0 {
			if got, own := float64(memstats.Allocated()-before), float64(table.Bytes()); got > most*own {
				t.Errorf("%d keys: %.0f bytes were allocated, %.2f times the %.0f bytes of the table", n, got, got/own, own)
			}
		}
	}
}

// TestVisitSeesWhatStays: a visit in many steps sees each slot that stays, once and with its
// whole key, while others come and go, blocks are split and shrink.
func TestVisitSeesWhatStays(t *testing.T) {
	for _, growing := range []bool{true, false} {
		table := newTable(0, 0, 4)
		table.Group("g", 1000)
		s := table.At(0)
		insert := func(key string) {
			k := table.first(0, key)
			s.insert(t, table, &k).Unlock()
		}
		remove := func(key string) {
			k := table.first(0, key)
			slot := s.Lookup(k.Key, k.text)
			slot.tryLock(&k.Key)
			s.Remove(table, k.Key, slot)
		}
		const stay, go_ = 1200, 6000
		for i := range stay {
			insert(fmt.Sprint("stays", i) + strings.Repeat("x", i))
		}
		for i := range go_ {
			insert(fmt.Sprint("goes", i))
		}
		seen := map[string]int{}
		steps, visited, gone, came := 0, 0, 0, 0
		slots, most := s.slots(), 0
		for place := uint64(0); place < Hashes; steps++ {
			at := visited
			place = s.Visit(place, 10, func(slot *Slot) {
				visited++
				if slot.state.Load()&locked == 0 {
					t.Error("a slot is visited without its lock")
				}
				seen[string(s.AppendKey(nil, slot))]++
			})
			most = max(most, visited-at)
			for range 40 {
				if gone < go_ && !growing {
					remove(fmt.Sprint("goes", gone))
					gone++
				}
			}
			for range 10 {
				if growing {
					insert(fmt.Sprint("comes", came))
					came++
				}
			}
			if !growing { // blocks shrink; nothing has expired
				s.sweep(table, -1<<61, false, 200)
			}
		}
		for i := range stay {
			assert.Equal(t, seen[fmt.Sprint("stays", i)+strings.Repeat("x", i)], 1, "visits of slot %d", i)
		}
		if most > 60 || steps < 100 {
			t.Errorf("%d steps, in one of which %d slots were visited, want about 10", steps, most)
		}
		if now := s.slots(); growing != (now > slots) {
			t.Errorf("%d slots before, %d after", slots, now)
		}
	}
	table := newTable(0, 0, 5)
	assert.Equal(t, table.At(3).Visit(0, 10, func(*Slot) { t.Error("a slot of an empty shard") }), Hashes, "an empty shard goes on at")
	first, seen := table.first(0, "first"), 0
	first.setHash(0)
	table.At(3).insert(t, table, &first).Unlock()
	table.At(3).Visit(0, 10, func(*Slot) { seen++ })
	assert.Equal(t, seen, 1, "visits of a slot at the first place")
}

// TestCallersFindWhatMoves: callers find and lock slots without the lock of the shard, while
// others with the same hashes come and go, blocks are split and replaced. No slot is taken for
// that of another key, and no write to a history is lost.
func TestCallersFindWhatMoves(t *testing.T) {
	const stay, callers = 150, 3
	var alike atomic.Int64                   // finds of another key with the hash; short keys have few
	for _, size := range []int{0, 20, 100} { // bytes of a key, about
		table := newTable(0, 0, 6)
		table.Group("g", 1000)
		s := table.At(0)
		text := func(i int) string { return fmt.Sprint(i) + strings.Repeat("y", size) }
		key := func(i int) named {
			k := table.first(0, text(i))
			k.setHash(table.first(0, text(i%stay)).hash)
			return k
		}
		for i := range stay {
			k := key(i)
			slot := s.insert(t, table, &k)
			slot.Last = 0
			slot.Unlock()
		}
		var wrote [stay]atomic.Int64
		var all sync.WaitGroup
		var done atomic.Bool
		var found, missed atomic.Int64
		for c := range callers {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(c), 7))
				for !done.Load() {
					i := r.IntN(stay)
					k := key(i)
					first := s.Find(&k.Key)
					slot := s.Acquire(first, &k.Key, k.text)
					if slot != first && first.fits(&k.Key) {
						alike.Add(1)
					}
					if slot == nil {
						missed.Add(1)
						s.Lock() // now it is found
						slot = s.Lookup(k.Key, k.text)
						if slot == nil {
							s.Unlock()
							t.Errorf("key %d is lost", i)
							return
						}
						slot.Lock()
						s.Unlock()
					} else {
						found.Add(1)
					}
					if got := string(s.AppendKey(nil, slot)); got != text(i) {
						t.Errorf("the slot of %q is locked for %q", got, text(i))
						slot.Unlock()
						return
					}
					slot.Last++
					wrote[i].Add(1)
					slot.Unlock()
				}
			})
		}
		r := rand.New(rand.NewPCG(uint64(size), 8))
		var others []int
		next := stay
		grown, shrunk, slots := 0, 0, s.slots()
		for round := range race.Fewer(40) {
			for range 1500 {
				s.Lock()
				if round%2 == 0 {
					k := key(next)
					slot := s.insert(t, table, &k)
					slot.Last = 0
					slot.Unlock()
					others = append(others, next)
					next++
				} else if len(others) > 0 {
					i := r.IntN(len(others))
					k := key(others[i])
					slot := s.Lookup(k.Key, k.text)
					slot.Lock()
					s.Remove(table, k.Key, slot)
					others[i] = others[len(others)-1]
					others = others[:len(others)-1]
					s.sweep(table, -1<<61, false, 8)
				}
				now := s.slots()
				grown += max(now-slots, 0)
				shrunk += max(slots-now, 0)
				slots = now
				s.Unlock()
			}
		}
		done.Store(true)
		all.Wait()
		for i := range stay {
			k := key(i)
			if got, want := s.Lookup(k.Key, k.text).Last, wrote[i].Load(); got != want {
				t.Fatalf("key %d has %d writes, want %d", i, got, want)
			}
		}
		t.Logf("keys of %d bytes: %d found, %d missed, %d slots more and %d fewer", size, found.Load(), missed.Load(), grown, shrunk)
		if grown == 0 || shrunk == 0 || found.Load() == 0 {
			t.Error("nothing moved, or nothing was found")
		}
	}
	if alike.Load() == 0 {
		t.Error("no other key had the hash of one that was looked up")
	}
}

// acquired finds and locks a key as callers without the lock of the shard do.
func (s *Shard) acquired(k named) *Slot {
	return s.Acquire(s.Find(&k.Key), &k.Key, k.text)
}

// TestAwaitEnds: a caller that finds its own lock on a slot with the hash of another key does not
// wait for itself.
func TestAwaitEnds(t *testing.T) {
	table := newTable(0, 0, 1)
	table.Group("limit", 1000)
	s, k := table.At(0), table.first(0, "a")
	slot := s.insert(t, table, &k)
	if slot.tryLock(&k.Key) {
		t.Error("a locked slot is locked again")
	}
	slot.Unlock()
}
