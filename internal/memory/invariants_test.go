package memory

import (
	"fmt"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// pathsInUse are the second values of the keys in use. Up to 16 bytes fit a record, and 60 a
// chunk.
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

// checkMemory checks that each record of m is found, whole, and counted once.
func checkMemory(t *testing.T, m *Memory) {
	t.Helper()
	found, chunks, bytes := map[*keytable.Record]bool{}, map[*keytable.Shard]int{}, 0
	all := m.compiled(newLimiter(policyOf(rand.New(rand.NewPCG(0, 0)), engine.MaxLimits)).rules)
	for i := range keysInUse {
		k, slots := keyOf(i, 2), [engine.MaxLimits]slot{}
		m.locate(all.limits, &k, slots[:])
		for i := range slots {
			s := &slots[i]
			if s.load(&k); s.ref != 0 && !found[s.shard.At(s.ref)] { // limits share histories
				found[s.shard.At(s.ref)] = true
				chunks[s.shard] += checkHistory(t, s.h, s.arena) + keytable.KeyChunks(s.limit.keySize(s.shard, &k))
			}
			unlockRecords(slots[i : i+1])
		}
	}
	shards := tableField(m, "shards")
	for i := range shards.Len() {
		records, slots := shards.Index(i).FieldByName("records"), checkParts(t, shards.Index(i).FieldByName("parts"))
		shard := m.table.Shard(uint64(i) << 58)
		if n := int(records.FieldByName("live").Int()); 16*n > 13*slots || shard.Arena.Len() != chunks[shard] {
			t.Errorf("shard %d: %d records in %d slots own %d of %d chunks", i, n, slots, chunks[shard], shard.Arena.Len())
		}
		const slotSize, recordSize = 8, 64
		bytes += slots*slotSize + places(records)*recordSize + places(reflect.ValueOf(&shard.Arena.Slab).Elem())*window.ChunkSize
	}
	maxKeys, maxBytes := m.Caps()
	if got := int(m.Bytes()); got != bytes || maxBytes > 0 && got > int(maxBytes) {
		t.Errorf("%d bytes are counted of at most %d, %d are held", got, maxBytes, bytes)
	}
	if got, keys := keysCounted(m), m.Len(); keys != len(found) || maxKeys > 0 && (got != keys || got > int(maxKeys)) {
		t.Errorf("%d keys are counted of at most %d, %d are held, %d of them found", got, maxKeys, keys, len(found))
	}
}

// tableField returns a private field of the engine's table.
func tableField(m *Memory, name string) reflect.Value {
	return reflect.ValueOf(&m.table).Elem().FieldByName(name)
}

// checkParts checks that each block of an index is at most thirteen sixteenths full, and
// returns the number of slots.
func checkParts(t *testing.T, parts reflect.Value) (slots int) {
	t.Helper()
	seen := map[uintptr]bool{}
	for i := range parts.Len() {
		p := parts.Index(i)
		if seen[p.Pointer()] {
			continue
		}
		seen[p.Pointer()] = true
		for j := range int(p.Elem().FieldByName("count").Uint()) {
			b := p.Elem().FieldByName("array").Index(j)
			n, used := b.FieldByName("slots").Len(), int(b.FieldByName("used").Int())
			if slots += n; 16*used > 13*n {
				t.Errorf("%d of %d slots of a block are used", used, n)
			}
		}
	}
	return slots
}

// TestSeveralLimitsFindRoom: records of several limits in one shard go to different blocks of
// its index, and each block has room for them.
func TestSeveralLimitsFindRoom(t *testing.T) {
	p := limits(engine.MaxLimits)
	for i := range p.Limits {
		p.Limits[i].Window = time.Hour // no record expires, however slow the machine is
	}
	l := newLimiter(p)
	shards, most := tableField(l.memory, "shards"), 0
	for i := range 12_000 {
		l.Allow(K(fmt.Sprint(i)))
		if i%50 == 0 {
			for i := range shards.Len() {
				parts := shards.Index(i).FieldByName("parts")
				checkParts(t, parts)
				most = max(most, parts.Len())
			}
		}
	}
	if most < 2 {
		t.Error("no index has several parts")
	}
}

// keysCounted is the number of keys counted under MaxKeys.
func keysCounted(m *Memory) int { return int(tableField(m, "keys").FieldByName("v").Int()) }

// places is the number of values that a slab has room for.
func places(slab reflect.Value) int { return int(slab.FieldByName("places").Int()) }

// checkHistory walks the entries: ends rise from Front to End, units add up to
// Total. It returns the number of chunks of the log.
func checkHistory(t *testing.T, h *window.History, a *window.Arena) (chunks int) {
	newest, own := h.Clone(a)
	for end, left := h.Front, h.Total; left > 0; {
		after, _ := h.Used(a, end)
		if after == 0 && end == h.End && newest.Refund(own, end, end-1, left+1) == left {
			break
		}
		next := h.Leave(a, end, 1)
		if after <= 0 || after >= left || next <= end {
			t.Errorf("%d units until %d, then %d until %d: %+v", left, end, after, next, *h)
			break
		}
		left, end = after, next
	}
	const chunk = 1<<26 - 1 // the part of a place that names it
	log := reflect.ValueOf(h).Elem().FieldByName("log")
	ref, last := log.FieldByName("head").Uint()&chunk, log.FieldByName("tail").Uint()&chunk
	for chunks = int(min(ref, 1)); ref != last; ref = uint64(*a.At(uint32(ref)).Link()) {
		chunks++
	}
	return chunks
}
