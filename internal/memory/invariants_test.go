package memory

import (
	"fmt"
	"github.com/weirlimit/weir/engine"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// TestMemoryInvariants runs calls of all kinds in several goroutines, on both clocks, with
// caps and without. It checks all records of the engine when no call is in flight.
func TestMemoryInvariants(t *testing.T) {
	for seed := uint64(0); seed < 6 && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			m := New(Options{MaxKeys: int64(seed%3) * 500, MaxBytes: int64(seed%2) << 19})
			for round := 0; round < 6 && !t.Failed(); round++ {
				var callers sync.WaitGroup
				for range 3 {
					l := m.on(policyOf(r, 1+r.IntN(4)*r.IntN(6)))
					mine := rand.New(rand.NewPCG(r.Uint64(), 0))
					callers.Go(func() {
						for range 500 {
							actAtRandom(mine, l)
						}
					})
				}
				callers.Wait()
				checkMemory(t, m)
			}
			time.Sleep(time.Minute)
			m.Sweep()
			m.table.Reclaim(^uint64(0), engine.MaxInstant, true) // all shards
			if checkMemory(t, m); m.Len() != 0 {
				t.Errorf("%d keys are held when none counts, want 0", m.Len())
			}
		})
	}
}

// policyOf has n limits. All such policies share their names, so that limits
// change while they are in use (R12).
func policyOf(r *rand.Rand, n int) policy {
	p := policy{Name: "p", Mode: engine.Mode(r.IntN(3))}
	for i := range n {
		w := time.Duration(1+r.IntN(9000)) * time.Millisecond
		p.Limits = append(p.Limits, limit{
			Name: fmt.Sprint("l", i), Max: r.Int64N(100), Window: w, MinInterval: w / 1000 * time.Duration(r.IntN(2)),
			By: [][]string{{"user"}, {"user"}, {"user", "path"}, nil}[i%4], Cells: r.IntN(2) * r.IntN(100)})
	}
	return p
}

const keysInUse = 200 * 6

// pathsInUse are the second values of the keys in use. Up to 16 bytes fit a slot.
var pathsInUse = func() (all [6]string) {
	for i, n := range []int{0, 1, 17, 61, 500, keyenc.MaxValueBytes} {
		all[i] = strings.Repeat("x", n)
	}
	return all
}()

// keyOf is one of the keys in use, of so many dimensions.
func keyOf(i, dimensions int) engine.Key {
	return K([]string{fmt.Sprint("user", i/6), pathsInUse[i%6]}[:dimensions]...)
}

// actAtRandom makes a call of any kind that writes, and lets some time pass.
func actAtRandom(r *rand.Rand, l *limiter) {
	k := keyOf(r.IntN(1+r.IntN(keysInUse)), len(l.rules.Dimensions))
	n := r.Int64N(1 << (1 + r.IntN(53)*(r.IntN(200)/199)))
	switch x := r.IntN(100); {
	case x < 55:
		l.AllowN(k, n)
	case x < 65:
		l.At(time.Now().Add(time.Duration(r.IntN(4000)-2000)*time.Millisecond)).AllowN(k, n)
	case x < 75:
		l.Record(k, n)
	case x < 95:
		d, _ := l.AllowN(k, n)
		l.Refund(k, d.At, n/(1+r.Int64N(2)))
	case x < 99:
		l.Reset(k)
	default:
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
	}
	time.Sleep(time.Duration(r.IntN(2)*r.IntN(50)) * time.Microsecond)
}

// checkMemory checks that each history of m is found, whole, and counted once, and that the bytes
// are those of its blocks, pages and operations. No call is in flight.
func checkMemory(t *testing.T, m *Memory) {
	t.Helper()
	found := map[*keytable.Slot]bool{}
	all := m.Rules(newLimiter(policyOf(rand.New(rand.NewPCG(0, 0)), engine.MaxLimits)).rules)
	for i := range keysInUse {
		k := keyOf(i, 2)
		c := claim{records: make([]record, len(all.limits))}
		buffer := m.name(&c, all.limits, &k)
		for i := range c.records {
			r := &c.records[i]
			r.shard.Lock()
			if slot := r.shard.Lookup(r.key, r.text); slot != nil && !found[slot] { // limits share histories
				found[slot] = true
				if got := string(r.shard.AppendKey(nil, slot)); got != r.text || slot.Group() != r.limit.group {
					t.Errorf("the key %.40q of group %d is %.40q of group %d", r.text, r.limit.group, got, slot.Group())
				}
				slot.Lock() // no caller has kept it
				checkHistory(t, &slot.History, &r.shard.Arena)
				slot.Unlock()
			}
			r.shard.Unlock()
		}
		putBuffer(buffer)
	}
	visited, bytes := 0, 0
	for i := range keytable.Shards {
		s := m.table.At(i)
		s.Lock()
		inShard := 0
		for place := uint64(0); place < keytable.Hashes; {
			place = s.Visit(place, 64, func(slot *keytable.Slot) {
				inShard++
				if !found[slot] {
					t.Errorf("a slot of group %d is not found by its key", slot.Group())
				}
			})
		}
		if inShard != s.Len() {
			t.Errorf("shard %d: %d slots are counted, %d are visited", i, s.Len(), inShard)
		}
		visited += inShard
		bytes += checkBlocks(t, s) + arenaBytes(&s.Arena)
		s.Unlock()
	}
	for i := range m.operations.shards {
		for name := range m.operations.shards[i].byName {
			bytes += operationBytes + len(name)
		}
	}
	maxKeys, maxBytes := m.Caps()
	if got := int(m.Bytes()); got != bytes || maxBytes > 0 && got > int(maxBytes) {
		t.Errorf("%d bytes are counted of at most %d, %d are held", got, maxBytes, bytes)
	}
	if got, keys := keysCounted(m), m.Len(); visited != len(found) || keys != len(found)+m.operations.len() || maxKeys > 0 && (got != keys || got > int(maxKeys)) {
		t.Errorf("%d keys are counted of at most %d, %d are held, %d of them found, %d visited", got, maxKeys, keys, len(found), visited)
	}
}

// tableField returns a private field of the engine's table.
func tableField(m *Memory, name string) reflect.Value {
	return reflect.ValueOf(&m.table).Elem().FieldByName(name)
}

// blocksOf returns the blocks of a shard at their places, by reflection.
func blocksOf(s *keytable.Shard) (blocks []reflect.Value) {
	directory := reflect.ValueOf(s).Elem().FieldByName("directory").FieldByName("v")
	if directory.Pointer() == 0 {
		return nil
	}
	type header struct {
		shift  uint8
		blocks []struct {
			tags, slots *uint64
			groups      uint32
		}
	}
	d := (*header)(directory.UnsafePointer())
	for i := range d.blocks {
		blocks = append(blocks, reflect.ValueOf(d.blocks[i]))
	}
	return blocks
}

// checkBlocks checks that each block is at most seven eighths full, and returns the bytes of all.
func checkBlocks(t *testing.T, s *keytable.Shard) (bytes int) {
	t.Helper()
	seen := map[uintptr]bool{}
	for _, b := range blocksOf(s) {
		tags, groups := b.Field(0), int(b.Field(2).Uint())
		if seen[tags.Pointer()] {
			continue
		}
		seen[tags.Pointer()] = true
		words := unsafe.Slice((*uint64)(tags.UnsafePointer()), groups)
		filled := 0
		for _, word := range words {
			for ; word != 0; word >>= 8 {
				if word&0xff != 0 {
					filled++
				}
			}
		}
		if filled > groups*7 {
			t.Errorf("%d of %d slots of a block are filled", filled, groups*8)
		}
		const slotBytes = 64
		bytes += groups*(8+8*slotBytes) + 8 + int(b.Type().Size())
	}
	return bytes
}

// arenaBytes is the memory of the pages of an arena, with what it knows of each.
func arenaBytes(a *window.Arena) (bytes int) {
	pages := (*[][]uint32)(reflect.ValueOf(a).Elem().FieldByName("pages").FieldByName("v").UnsafePointer())
	if pages == nil {
		return 0
	}
	const state = 72
	for _, page := range *pages {
		if page != nil {
			bytes += len(page)*4 + state
		}
	}
	return bytes
}

// TestSeveralLimitsFindRoom: records of several limits in one shard go to its different
// blocks, and each block has room for them.
func TestSeveralLimitsFindRoom(t *testing.T) {
	p := limits(engine.MaxLimits)
	for i := range p.Limits {
		p.Limits[i].Window = time.Hour // no record expires, however slow the machine is
	}
	l := newLimiter(p)
	most := 0
	for i := range 12_000 {
		l.Allow(K(fmt.Sprint(i)))
		if i%50 == 0 {
			for i := range keytable.Shards {
				s := l.memory.table.At(i)
				checkBlocks(t, s)
				most = max(most, len(blocksOf(s)))
			}
		}
	}
	if most < 2 {
		t.Error("no shard has several blocks")
	}
}

// keysCounted is the number of keys counted under MaxKeys.
func keysCounted(m *Memory) int { return int(tableField(m, "keys").FieldByName("v").Int()) }

// checkHistory walks the entries: ends rise to End, units add up to Total, and each limit of the
// walk is what Used and Leave return.
func checkHistory(t *testing.T, h *window.History, a *window.Arena) {
	t.Helper()
	total, newest := h.Total(), int64(-1<<62)
	left := total
	h.Each(a, func(end, units int64) {
		if units <= 0 || end <= newest {
			t.Errorf("%d units until %d, behind an entry until %d: %+v", units, end, newest, *h)
		}
		if used, drop := h.Used(a, end-1); used != left || h.Leave(a, drop, 1) != end {
			t.Errorf("%d units are left from %d on, want %d: %+v", used, end, left, *h)
		}
		newest = end
		left -= units
	})
	if left != 0 || total > 0 && newest != h.End() {
		t.Errorf("%d of %d units are in no entry, the newest ends at %d, want %d: %+v", left, total, newest, h.End(), *h)
	}
}
