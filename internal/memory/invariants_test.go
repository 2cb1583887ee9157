package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/internal/window"
)

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
		if r.IntN(4) == 0 {
			l = l.At(time.Now().Add(time.Duration(r.IntN(1000)-500) * time.Millisecond))
		}
		l.Refund(k, d.At, n/(1+r.Int64N(2)))
	case x < 99:
		l.Reset(k)
	default:
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
	}
	time.Sleep(time.Duration(r.IntN(2)*r.IntN(50)) * time.Microsecond)
}

// checkWhole checks that each history of m is whole, found by its key and counted once. No call is
// in flight.
func checkWhole(t *testing.T, m *Memory) {
	t.Helper()
	keys := m.operations.len()
	for i := range keytable.Shards {
		s := m.table.At(i)
		s.Lock()
		lists := 0
		for place := uint64(0); place < keytable.Hashes; {
			place = s.Visit(place, 64, func(slot *keytable.Slot) { // which no caller has kept
				keys++
				text := string(s.AppendKey(nil, slot))
				key := m.table.Text(text).In(&m.table, slot.Group(), slot.Virtual())
				if slot.IsBlock() {
					assert.Equal(t, s.BlockOf(key, text), slot, "the block of key %.40q of group %d", text, slot.Group())
					return
				}
				assert.Equal(t, s.Lookup(key, text), slot, "the slot of key %.40q of group %d", text, slot.Group())
				if list := s.Ahead(slot); list != nil {
					lists++
					checkAhead(t, list, slot.Last)
				}
				if s.BlockOf(key, text) != nil && !slot.Blocked() {
					t.Errorf("key %.40q of group %d has a block, and its slot has no flag", text, slot.Group())
				}
				checkHistory(t, &slot.History, &s.Arena)
			})
		}
		assert.Equal(t, lists, s.Lists(), "histories with appointments, and lists of the shard")
		assert.Equal(t, s.Arena.Spare, 0, "bytes by which the next caller of shard %d may exceed the cap", i)
		s.Unlock()
	}
	maxKeys, maxBytes := m.Caps()
	spareKeys, spareBytes := int64(0), int64(0)
	if m.operations.mayExceed() {
		spareKeys, spareBytes = m.spareKeys(), m.spareBytes()
	}
	if got := m.Bytes(); maxBytes > 0 && got > maxBytes+spareBytes {
		t.Errorf("%d bytes are counted of at most %d, and %d of refunds and settlements", got, maxBytes, spareBytes)
	}
	assert.Equal(t, m.Len(), keys, "keys that are counted, as visited")
	if free := int(maxKeys) - keys; maxKeys > 0 {
		if free+int(spareKeys) < 0 || !m.table.TakeKeys(free) || m.table.TakeKeys(1) {
			t.Errorf("%d keys are held of at most %d, and the count is another", keys, maxKeys)
		}
		m.table.GiveKeys(free)
	}
}

// checkEmptied removes all histories, as if they had expired, and checks that all memory is given
// back.
func checkEmptied(t *testing.T, m *Memory) {
	t.Helper()
	m.table.Sweep(engine.MaxInstant)
	m.table.Reclaim(^uint64(0), engine.MaxInstant, true) // all shards
	m.operations.removeOver(m, engine.MaxInstant)
	m.operations.removeSome(m, engine.MaxInstant, true)
	assert.Equal(t, fmt.Sprint(m.Len(), m.Bytes()), "0 0", "keys and bytes that are held when none counts")
}

// checkAhead checks that appointments are ahead of the newest decision, rise and add up.
func checkAhead(t *testing.T, list *window.Ahead, last int64) {
	t.Helper()
	sum, newest := int64(0), last
	for _, e := range list.Entries {
		if e.Units <= 0 || e.End <= newest {
			t.Errorf("an appointment of %d units at %d, behind one at %d", e.Units, e.End, newest)
		}
		sum, newest = sum+e.Units, e.End
	}
	if len(list.Entries) == 0 || sum != list.Units || list.Until < newest {
		t.Errorf("%d appointments of %d units, want %d; the last one is at %d, and they are kept until %d", len(list.Entries), list.Units, sum, newest, list.Until)
	}
}

// checkHistory walks the entries: ends rise to End, units add up to Total, and Used and Leave
// return the same numbers at each end. A bucket has no entries.
func checkHistory(t *testing.T, h *window.History, a *window.Arena) {
	t.Helper()
	if h.Rate() != 0 {
		return
	}
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

// TestCallersDoNotBlockEachOther: many callers decide over several limits in different orders.
// Meanwhile keys come and go, blocks are split and shrink, sweeps, dumps and resets run, and
// bytes run out. All callers return before the timeout of go test, which shows all goroutines, and
// every history is whole afterwards.
func TestCallersDoNotBlockEachOther(t *testing.T) {
	for _, o := range []Options{{}, {MaxBytes: 1 << 20}, {MaxKeys: 3000}, {Journal: &counter{}}} {
		m := New(o)
		var callers sync.WaitGroup
		for g := range 12 {
			r := rand.New(rand.NewPCG(uint64(g), 21))
			p := policy{Name: "p", Mode: engine.Mode(g % 3)}
			for i := range 6 {
				by := [][]string{{"user"}, {"path"}, {"user", "path"}, nil}[i%4]
				p.Limits = append(p.Limits, limit{Name: fmt.Sprint("l", i), Max: 1 << 30, Window: time.Duration(1+i*i*20) * time.Millisecond, By: by})
			}
			r.Shuffle(len(p.Limits), func(i, j int) { p.Limits[i], p.Limits[j] = p.Limits[j], p.Limits[i] })
			l := m.on(p)
			callers.Go(func() {
				var place DumpPlace
				starts := map[int]int64{}
				for range race.Fewer(2000) {
					values := []string{fmt.Sprint(r.IntN(20)), fmt.Sprint(r.IntN(40))}
					if r.IntN(3) == 0 {
						values[0] = fmt.Sprint("user", r.IntN(5000), "with a long name")
					}
					if l.rules.Dimensions[0] == "path" {
						slices.Reverse(values)
					}
					k := K(values...)
					switch r.IntN(100) {
					case 0:
						l.Reset(k)
					case 1:
						m.Sweep()
					case 2:
						if !m.Dump(&place, 50, m.Clock(), func(*Change) {}) {
							place = DumpPlace{}
						}
					case 3:
						l.AllowOnce(k, 1, fmt.Sprint(r.IntN(100)))
					case 4, 5, 6:
						if d, err := l.AllowN(k, 2); err == nil {
							l.Refund(k, d.At, 2)
						}
					case 7, 8:
						l.At(time.Now().Add(-time.Duration(r.IntN(3000)) * time.Millisecond)).Allow(k)
					case 9:
						actOnState(r, l)
					case 10, 11, 12:
						actAhead(r, l, starts)
					case 13:
						m.makeRoom(r.Uint64(), moment{}, m.reclaimed.Load())
					default:
						l.Allow(k)
					}
				}
			})
		}
		callers.Wait()
		checkWhole(t, m)
		checkEmptied(t, m)
	}
}

// counter is a journal that only counts.
type counter struct{ changes atomic.Int64 }

func (c *counter) Append(changes []Change) { c.changes.Add(int64(len(changes))) }
