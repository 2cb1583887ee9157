package keytable

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/internal/window"
)

// add adds an entry of one unit at an instant to the history of a locked slot.
func add(s *Shard, slot *Slot, at int64) {
	e := window.Add{End: at, Now: at, Units: 1, Narrow: true}
	if !slot.Ready(&s.Arena, &e) && !slot.Grow(&s.Arena, &e) {
		panic("no room for an entry")
	}
	slot.Record(&s.Arena, &e)
}

// blocks returns the blocks of a shard, each once.
func (s *Shard) blocks() []block {
	if d := s.directory.Load(); d != nil {
		return slices.Collect(distinct(d.blocks))
	}
	return nil
}

// check checks the blocks of a shard against each other, and returns their bytes.
func (s *Shard) check(t testing.TB) (bytes int) {
	t.Helper()
	d := s.directory.Load()
	if d == nil {
		if s.used != 0 {
			t.Fatalf("%d keys without a block", s.used)
		}
		return 0
	}
	if len(d.blocks) != 1<<d.bits() {
		t.Fatalf("%d places with %d bits", len(d.blocks), d.bits())
	}
	used, deepest := 0, uint32(0)
	for place := 0; place < len(d.blocks); {
		b := d.blocks[place]
		state := b.state()
		depth := state.depth
		if !slices.Contains(sizes[:], b.groups) {
			t.Fatalf("a block of %d groups", b.groups)
		}
		deepest = max(deepest, depth)
		if depth > d.bits() || place&(1<<(d.bits()-depth)-1) != 0 {
			t.Fatalf("a block of depth %d begins at place %d of %d", depth, place, len(d.blocks))
		}
		for i := range 1 << (d.bits() - depth) {
			if d.blocks[place+i] != b {
				t.Fatalf("place %d of %d has another block", place+i, len(d.blocks))
			}
		}
		live, filled := 0, 0
		for group := range b.groups {
			word := b.group(group).Load()
			for i := range groupSlots {
				slot, tag := b.slot(group, i), uint8(word>>(i*8))
				if tag != emptyTag {
					filled++
				}
				if is := slot.state.Load()&live_ != 0; is != (tag&liveTag != 0) || tag&liveTag == 0 && tag > removedTag {
					t.Fatalf("a slot of state %x has tag %x", slot.state.Load(), tag)
				}
				if tag&liveTag == 0 {
					if slot.state.Load() != 0 {
						t.Fatalf("a free slot has state %x", slot.state.Load())
					}
					continue
				}
				live++
				if d.bits() > 0 && int(slot.place()>>d.shift)>>(d.bits()-depth) != place>>(d.bits()-depth) {
					t.Fatalf("a slot of place %x is in block %d of %d", slot.place(), place, len(d.blocks))
				}
			}
		}
		if live != int(state.used) || filled != int(state.filled) || filled > b.limit() {
			t.Fatalf("%d slots are in use and %d filled, %d and %d are counted of at most %d", live, filled, state.used, state.filled, b.limit())
		}
		used += live
		bytes += b.bytes()
		place += 1 << (d.bits() - depth)
	}
	if used != int(s.used) || deepest != d.bits() {
		t.Fatalf("%d keys are held, %d counted; the deepest block has %d of %d bits", used, s.used, deepest, d.bits())
	}
	return bytes
}

const live_ = live

// tally is the budget of a shard's arena, which knows the arena's part of the table's bytes.
type tally struct {
	*Table
	bytes int
}

func (x *tally) TakeAbove(spare int64, n int) bool {
	if !x.Table.TakeAbove(spare, n) {
		return false
	}
	x.bytes += n
	return true
}

func (x *tally) Give(n int) {
	x.Table.Give(n)
	x.bytes -= n
}

// model is a shard, and a map with the same keys.
type model struct {
	t     *testing.T
	r     *rand.Rand
	table *Table
	s     *Shard
	arena *tally
	held  map[string]named // by group and text
	names []string         // the keys of held, at their places
	place map[string]int
	next  int64 // entries, one for each key, have different instants
	at    map[string]int64
	seen  map[string]int
}

func newModel(t *testing.T, seed uint64, maxBytes int64) *model {
	m := &model{t: t, r: rand.New(rand.NewPCG(seed, 1)), table: newTable(1<<40, maxBytes, seed),
		held: map[string]named{}, place: map[string]int{}, at: map[string]int64{}, seen: map[string]int{}}
	m.s = m.table.At(0)
	m.arena = &tally{Table: m.table}
	m.s.Arena.Budget = m.arena
	for i := range 3 {
		m.table.Group(fmt.Sprint(i), 1000)
	}
	return m
}

// key returns the key of a name: its first byte is the group.
func (m *model) key(name string) named { return m.table.first(uint32(name[0]-'0'), name[1:]) }

// random returns a name that may be in use.
func (m *model) random(most int) string {
	name := fmt.Sprint(m.r.IntN(3), m.r.IntN(most))
	switch name[len(name)-1] {
	case '0':
		name += strings.Repeat("z", 11)
	case '1':
		name += strings.Repeat("z", 20)
	case '2':
		name += strings.Repeat("z", 300)
	}
	if name == "0 7" { // longer than a value
		name += strings.Repeat("z", 1100)
	}
	return name
}

func (m *model) insert(name string) bool {
	m.t.Helper()
	k := m.key(name)
	m.s.Lock()
	defer m.s.Unlock()
	before := m.s.blocks()
	room := 1 + m.r.IntN(16)
	if !m.s.Reserve(m.table, k.Key, room) {
		m.seen["no room for a block"]++
		return false
	}
	m.compareBlocks(before)
	b := m.s.directory.Load().block(k.place())
	if state := b.state(); int(state.filled)+room > b.limit() {
		m.t.Fatalf("%d of %d slots are filled, without room for %d", state.filled, b.limit(), room)
	}
	m.table.TakeKeys(1)
	slot := m.s.Insert(k.Key, k.text)
	if slot == nil {
		m.table.GiveKeys(1)
		m.seen["no room for a key"]++
		return false
	}
	m.next++
	slot.Last = m.next // a history without entries
	if slot.Total() != 0 || slot.state.Load()&locked == 0 {
		m.t.Fatalf("a new slot has %d units, state %x", slot.Total(), slot.state.Load())
	}
	if m.r.IntN(4) == 0 {
		for i := range 1 + m.r.Int64N(20) {
			e := window.Add{End: m.next, Now: m.next, Units: 1 + i, Narrow: true}
			if slot.Ready(&m.s.Arena, &e) || slot.Grow(&m.s.Arena, &e) {
				slot.Record(&m.s.Arena, &e)
			}
		}
	}
	slot.Unlock()
	m.held[name], m.at[name] = k, m.next
	m.place[name] = len(m.names)
	m.names = append(m.names, name)
	return true
}

// compareBlocks checks that a reservation has replaced one block at most, and by two at most.
func (m *model) compareBlocks(before []block) {
	m.t.Helper()
	old := map[*Slot]bool{}
	for _, b := range before {
		old[b.slots] = true
	}
	fresh, kept := 0, 0
	for _, b := range m.s.blocks() {
		if old[b.slots] {
			kept++
		} else {
			fresh++
		}
	}
	gone := len(before) - kept
	m.seen[fmt.Sprintf("%d replaced by %d", gone, fresh)]++
}

func (m *model) forget(name string) {
	last := m.names[len(m.names)-1]
	m.names[m.place[name]], m.place[last] = last, m.place[name]
	m.names = m.names[:len(m.names)-1]
	delete(m.held, name)
	delete(m.at, name)
	delete(m.place, name)
}

func (m *model) remove(name string) {
	m.t.Helper()
	k := m.held[name]
	m.s.Lock()
	defer m.s.Unlock()
	slot := m.s.Lookup(k.Key, k.text)
	if slot == nil {
		m.t.Fatalf("%.20q is lost", name)
	}
	slot.tryLock(&k.Key)
	m.s.Remove(m.table, k.Key, slot)
	m.forget(name)
}

// look compares the slot of a name with the map.
func (m *model) look(name string) {
	m.t.Helper()
	k := m.key(name)
	m.s.Lock()
	defer m.s.Unlock()
	_, held := m.held[name]
	slot, quick := m.s.Lookup(k.Key, k.text), m.s.acquired(k)
	if quick != nil {
		quick.Unlock()
	}
	if (slot != nil) != held {
		m.t.Fatalf("%.20q is found: %t, want %t", name, slot != nil, held)
	}
	if !held {
		return
	}
	if quick != slot {
		m.t.Fatalf("%.20q is not found without the lock", name)
	}
	if got := string(m.s.AppendKey([]byte("key "), slot))[len("key "):]; got != name[1:] || slot.Group() != uint32(name[0]-'0') || slot.Last != m.at[name] || slot.Virtual() {
		m.t.Fatalf("%.20q is %.20q in group %d, of %d; want %d", name, got, slot.Group(), slot.Last, m.at[name])
	}
}

// sweep removes what has expired at an instant among the next slots, or with n = 0 all of it.
func (m *model) sweep(now int64, n int) {
	m.t.Helper()
	removed := 0
	if n == 0 {
		removed = m.table.Sweep(now)
	} else {
		m.s.Lock()
		removed = m.s.sweep(m.table, now, false, n)
		m.s.Unlock()
	}
	for i := 0; i < len(m.names); i++ {
		name := m.names[i]
		k := m.held[name]
		if m.at[name]+1000 > now {
			continue
		}
		if m.s.Lookup(k.Key, k.text) != nil {
			if n == 0 {
				m.t.Fatalf("%.20q is left by a sweep of all slots", name)
			}
			continue
		}
		removed--
		m.forget(name)
		i--
	}
	if removed != 0 {
		m.t.Fatalf("a sweep removed %d histories more than are gone", removed)
	}
}

func (m *model) check() {
	m.t.Helper()
	m.s.Lock()
	bytes := m.s.check(m.t) + m.arena.bytes
	m.s.Unlock()
	if got := m.table.Bytes(); got != int64(bytes) {
		m.t.Fatalf("%d bytes are counted, %d are held", got, bytes)
	}
	if got, keys := m.table.Len(), m.table.keys.Load(); got != len(m.held) || keys != int64(got) {
		m.t.Fatalf("%d keys are held, %d counted, want %d", got, keys, len(m.held))
	}
	for _, name := range m.names {
		m.look(name)
	}
	found := map[string]bool{}
	m.s.Lock()
	for place := uint64(0); place < Hashes; {
		place = m.s.Visit(place, 1+m.r.IntN(500), func(slot *Slot) {
			name := fmt.Sprint(slot.Group()) + string(m.s.AppendKey(nil, slot))
			if _, held := m.held[name]; !held || found[name] {
				m.t.Fatalf("a visit sees %.20q; held: %t, seen before: %t", name, held, found[name])
			}
			found[name] = true
		})
	}
	m.s.Unlock()
	if len(found) != len(m.held) {
		m.t.Fatalf("a visit sees %d of %d keys", len(found), len(m.held))
	}
}

// TestShardIsAMap: a shard has the keys of a map, while keys come and go, expire and meet a cap.
func TestShardIsAMap(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(race.Fewer(24)) {
		m := newModel(t, seed, int64(seed%3)*150_000)
		m.seen = seen
		most := []int{20, 1000, 8000}[seed%3] << m.r.IntN(3)
		for round := range 8 {
			growing := m.r.IntN(10)
			for range 5000 {
				name := m.random(most)
				switch _, held := m.held[name]; {
				case m.r.IntN(100) == 0:
					m.sweep(m.next-1000-m.r.Int64N(2000)+1500, 1+m.r.IntN(2000))
				case m.r.IntN(20) == 0:
					m.look(name)
				case held && m.r.IntN(10) >= growing:
					m.remove(name)
				case !held && m.r.IntN(10) < growing+2:
					m.insert(name)
				}
			}
			m.check()
			if m.sweep(m.next-1000-m.r.Int64N(3000), 0); round%3 == 2 {
				for range m.r.IntN(len(m.names) + 1) {
					m.remove(m.names[m.r.IntN(len(m.names))])
				}
				m.check()
			}
		}
		for len(m.names) > 0 {
			m.remove(m.names[m.r.IntN(len(m.names))])
		}
		m.check()
		if m.table.Sweep(0); m.table.Bytes() != 0 || m.s.directory.Load() != nil {
			t.Fatalf("seed %d: %d bytes are left of no key", seed, m.table.Bytes())
		}
	}
	for _, want := range []string{"0 replaced by 0", "0 replaced by 1", "1 replaced by 1", "1 replaced by 2", "no room for a block"} {
		if t.Logf("%7d %s", seen[want], want); seen[want] == 0 && !race.Enabled {
			t.Errorf("not seen: %s", want)
		}
		delete(seen, want)
	}
	delete(seen, "no room for a key")
	if len(seen) > 0 {
		t.Errorf("reservations move more than one block: %v", seen)
	}
}

// filled is a shard of keys 0, 1, …
type filled struct {
	*testing.T
	*Shard
	table *Table
	group uint32
	keys  []named
}

func newFilled(t *testing.T, seed uint64) *filled {
	table := newTable(0, 0, seed)
	group, _ := table.Group("g", 1000)
	return &filled{t, table.At(0), table, group, nil}
}

// insert adds the next key, with an entry at an instant.
func (f *filled) insert(now int64) {
	f.Helper()
	k := f.table.first(f.group, numbered(len(f.keys)))
	f.insertAs(k, now)
}

func (f *filled) insertAs(k named, now int64) {
	f.Helper()
	slot := f.Shard.insert(f, f.table, &k)
	add(f.Shard, slot, now)
	slot.Unlock()
	f.keys = append(f.keys, k)
}

func (f *filled) has(i int) bool {
	slot := f.Lookup(f.keys[i].Key, f.keys[i].text)
	quick := f.acquired(f.keys[i])
	if quick != nil {
		quick.Unlock()
	}
	return slot != nil && quick == slot
}

// TestSoleBlockShrinks: the only block of a shard is as large as its keys need.
func TestSoleBlockShrinks(t *testing.T) {
	f := newFilled(t, 11)
	for i := range 150 {
		f.insert(int64(i%10) * 1000) // the keys expire by tenths
	}
	full := f.table.Bytes()
	for _, c := range []struct {
		tenths int
		most   int64
	}{{0, full}, {5, full}, {8, full * 2 / 5}, {9, full / 4}} {
		f.table.Sweep(int64(c.tenths) * 1000)
		f.check(t)
		if f.Len() != 150-15*c.tenths || f.table.Bytes() > c.most {
			t.Errorf("%d tenths expired: %d keys in %d bytes, want at most %d", c.tenths, f.Len(), f.table.Bytes(), c.most)
		}
	}
}

// TestPassSeesWhatMoves: a block that is split or replaced in the middle of a pass hides no slot
// from it.
func TestPassSeesWhatMoves(t *testing.T) {
	for _, keys := range []int{5, 20, 60, 120, mostOf(fullGroups)} {
		for seed := range uint64(4) {
			f := newFilled(t, seed)
			for range keys {
				f.insert(0)
			}
			first := f.blocks()[0]
			for f.handGroup < first.groups/2 {
				f.sweep(f.table, 0, false, 1)
			}
			for f.blocks()[0] == first {
				f.insert(5000)
			}
			f.sweep(f.table, 1000, false, 1)
			for f.hand > 0 || f.handGroup > 0 {
				f.sweep(f.table, 1000, false, 1)
			}
			for i := range keys {
				if f.has(i) {
					t.Errorf("seed %d: the pass has missed key %d of %d", seed, i, keys)
				}
			}
		}
	}
}

// TestPassGoesOnWhileBlocksSplit: a growing block does not make the pass begin again.
func TestPassGoesOnWhileBlocksSplit(t *testing.T) {
	f := newFilled(t, 5)
	const keys, every = 4000, 8
	for i := range keys {
		f.insert(int64(min(i%every, 1)) * 10_000)
	}
	const more = keys * 2 / 3
	for range more {
		f.insert(10_000)
		f.SweepStep(f.table, 1000+sweepLate, false)
	}
	assert.Equal(t, max(f.Len()-more-keys/every*(every-1), 0), 0, "of %d old keys those that are left", keys/every)
}

// TestRemovedTagsAreUsedUp: keys that come and go at one place fill its groups with tags of
// removed slots. All other keys are found, and the block is replaced by one without such tags.
func TestRemovedTagsAreUsedUp(t *testing.T) {
	f := newFilled(t, 15)
	const stay = 40
	for range stay {
		f.insert(0)
	}
	for i := range 8 * groupSlots { // some groups that are full
		k := f.table.first(f.group, numbered(len(f.keys)))
		k.setHash(uint64(len(f.keys)&0x7f)<<32 | uint64(0x8000+i*128))
		f.insertAs(k, 0)
	}
	for f.blocks()[0].groups < fullGroups { // the largest block
		f.insert(0)
	}
	removedTags := func() (n int) {
		b := f.blocks()[0]
		for group := range b.groups {
			for word := b.group(group).Load(); word != 0; word >>= 8 {
				if uint8(word) == removedTag {
					n++
				}
			}
		}
		return n
	}
	most, bytes := 0, f.table.Bytes()
	r := rand.New(rand.NewPCG(1, 16))
	for round := range 3000 {
		i := stay + r.IntN(len(f.keys)-stay)
		if slot := f.Lookup(f.keys[i].Key, f.keys[i].text); slot != nil {
			slot.Lock()
			f.Remove(f.table, f.keys[i].Key, slot)
		}
		k := f.table.first(f.group, numbered(1_000_000+round))
		k.setHash(k.hash&^0xffff | uint64(r.IntN(3000))) // one of few groups
		slot := f.Shard.insert(t, f.table, &k)
		slot.Unlock()
		f.keys[i] = k
		if most = max(most, removedTags()); round%100 == 0 {
			f.check(t)
			for i := range f.keys {
				if !f.has(i) {
					t.Fatalf("key %d of %d is not found", i, len(f.keys))
				}
			}
		}
	}
	if most < 10 || f.table.Bytes() > 2*bytes {
		t.Errorf("%d tags of removed slots at most; %d bytes before and %d after", most, bytes, f.table.Bytes())
	}
}

// TestAlikeHashes: a block with hashes that no split tells apart is full at some time, and all of
// its keys are found.
func TestAlikeHashes(t *testing.T) {
	for name, low := range map[string]func(i int) uint32{
		"high bits differ": func(i int) uint32 { return bits.Reverse32(uint32(i)) },
		"low bits differ":  func(i int) uint32 { return uint32(i) },
		"none differ":      func(int) uint32 { return 7 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFilled(t, 1)
			for len(f.keys) < 2*int(fullGroups)*groupSlots {
				k := f.table.first(f.group, numbered(len(f.keys)))
				k.setHash(uint64(len(f.keys)&0x7f)<<32 | uint64(low(len(f.keys))))
				before := f.table.Bytes()
				if !f.Reserve(f.table, k.Key, 1) {
					if f.table.Bytes() < before {
						t.Errorf("%d bytes before a failed reservation, %d after", before, f.table.Bytes())
					}
					break
				}
				f.insertAs(k, 0)
			}
			f.check(t)
			for i := range f.keys {
				if !f.has(i) {
					t.Fatalf("key %d is not found", i)
				}
			}
			if n := len(f.keys); n < mostOf(fullGroups) || n > mostOf(fullGroups) && name != "high bits differ" {
				t.Errorf("a block holds %d keys", n)
			}
			f.table.Sweep(5000)
			assert.Equal(t, fmt.Sprint(f.table.Len(), f.table.Bytes()), "0 0", "keys and bytes that are left")
		})
	}
}

// TestNoRoomForALongKey: a long key without room takes no slot.
func TestNoRoomForALongKey(t *testing.T) {
	table := newTable(0, 2000, 1)
	group, _ := table.Group("g", 1000)
	s := table.At(0)
	long, short := table.first(group, strings.Repeat("x", 100)), table.first(group, "x")
	if !s.Reserve(table, long.Key, 2) {
		t.Fatal("no room for a block")
	}
	bytes := table.Bytes()
	if s.Insert(long.Key, long.text) != nil || s.Lookup(long.Key, long.text) != nil || s.Len() != 0 || table.Bytes() != bytes {
		t.Errorf("%d keys in %d bytes, want none in %d", s.Len(), table.Bytes(), bytes)
	}
	s.check(t)
	s.Insert(short.Key, short.text).Unlock()
	if s.check(t); s.Lookup(short.Key, short.text) == nil {
		t.Error("a short key is not found")
	}
}
