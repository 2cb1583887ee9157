package weir

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/window"
)

// TestMemoryInvariants lets goroutines do whatever callers can, on both clocks,
// with caps and without, and walks all that the engine holds whenever they rest.
func TestMemoryInvariants(t *testing.T) {
	for seed := uint64(0); seed < 6 && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			m := NewMemory(MaxKeys(int(seed%3)*500), MaxBytes(int64(seed%2)<<19))
			for round := 0; round < 6 && !t.Failed(); round++ {
				var callers sync.WaitGroup
				for range 3 {
					l := mustNew(t, policyOf(r, 1+r.IntN(4)*r.IntN(6)), WithEngine(m))
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
			for i := range m.shards {
				m.shards[i].sweep(m, MaxUnits, true, 1<<12)
			}
			if checkMemory(t, m); m.Len() != 0 {
				t.Errorf("%d keys are held when none counts, want 0", m.Len())
			}
		})
	}
}

// policyOf has n limits. All such policies share their names, so that limits
// change while they are in use (R12).
func policyOf(r *rand.Rand, n int) Policy {
	p := Policy{Name: "p", Mode: Mode(r.IntN(3))}
	for i := range n {
		w := time.Duration(1+r.IntN(9000)) * time.Millisecond
		p.Limits = append(p.Limits, Limit{
			Name: fmt.Sprint("l", i), Max: r.Int64N(100), Window: w, MinInterval: w / 1000 * time.Duration(r.IntN(2)),
			By: [][]string{{"user"}, {"user"}, {"user", "path"}, nil}[i%4], Cells: r.IntN(2) * r.IntN(100)})
	}
	return p
}

const keysInUse = 200 * 6

// keyOf is one of the keys in use, of so many dimensions: short, long, very long.
func keyOf(i, dimensions int) Key {
	path := strings.Repeat("x", []int{0, 1, inlineKey, longKeyBytes + 1, 500, MaxValueBytes}[i%6])
	return K([]string{fmt.Sprint("user", i/6), path}[:dimensions]...)
}

// actAtRandom makes a call of any kind that writes, and lets some time pass.
func actAtRandom(r *rand.Rand, l *Limiter) {
	k := keyOf(r.IntN(1+r.IntN(keysInUse)), len(l.Plan().Dimensions()))
	n := r.Int64N(1 << (1 + r.IntN(53)*(r.IntN(200)/199)))
	switch x := r.IntN(100); {
	case x < 55:
		l.AllowN(ctx, k, n)
	case x < 65:
		l.AllowAt(ctx, k, n, time.Now().Add(time.Duration(r.IntN(4000)-2000)*time.Millisecond))
	case x < 75:
		l.Record(ctx, k, n)
	case x < 95:
		d, _ := l.AllowN(ctx, k, n)
		l.Refund(ctx, k, d.At, n/(1+r.Int64N(2)))
	case x < 99:
		l.Reset(ctx, k)
	default:
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
	}
	time.Sleep(time.Duration(r.IntN(2)*r.IntN(50)) * time.Microsecond)
}

// checkMemory asks of all of m whether it is found, whole, and counted once.
func checkMemory(t *testing.T, m *Memory) {
	t.Helper()
	found, chunks, bytes := map[*record]bool{}, map[*shard]int{}, 0
	all := m.binding(mustNew(t, policyOf(rand.New(rand.NewPCG(0, 0)), MaxLimits)).plan)
	for i := range keysInUse {
		k, sites := keyOf(i, 2), [MaxLimits]site{}
		m.locate(all.limits, &k, sites[:])
		for i := range sites {
			s := &sites[i]
			if s.load(&k); s.ref != 0 && !found[s.shard.records.At(s.ref)] { // limits share histories
				found[s.shard.records.At(s.ref)] = true
				chunks[s.shard] += checkHistory(t, s.h, s.arena) + keyChunks(keySize(s.limit.by, &k))
			}
		}
	}
	for i := range m.shards {
		s := &m.shards[i]
		if n := s.records.Len(); 4*n > 3*len(s.index) || s.arena.Len() != chunks[s] {
			t.Errorf("shard %d: %d records in %d slots own %d of %d chunks", i, n, len(s.index), chunks[s], s.arena.Len())
		}
		bytes += len(s.index)*slotSize + places(&s.records)*recordSize + places(&s.arena.Slab)*window.ChunkSize
	}
	if got, most := int(m.Bytes()), int(m.budget.most); got != bytes || most > 0 && got > most {
		t.Errorf("%d bytes are counted of at most %d, %d are held", got, most, bytes)
	}
	if got, most, keys := int(m.keys.Load()), int(m.maxKeys), m.Len(); keys != len(found) || most > 0 && (got != keys || got > most) {
		t.Errorf("%d keys are counted of at most %d, %d are held, %d of them found", got, most, keys, len(found))
	}
}

// places is the number of values that a slab has room for.
func places(slab any) (n int) {
	pages := reflect.ValueOf(slab).Elem().FieldByName("values")
	for i := range pages.Len() {
		n += pages.Index(i).Len()
	}
	return n
}

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
