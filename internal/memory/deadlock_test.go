package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestCallersDoNotBlockEachOther: many callers decide over several limits in different orders.
// Meanwhile keys come and go, blocks are split and shrink, sweeps, dumps and resets run, and
// bytes run out. All callers return, and every history is whole afterwards.
func TestCallersDoNotBlockEachOther(t *testing.T) {
	for _, o := range []Options{{}, {MaxBytes: 1 << 20}, {MaxKeys: 3000}, {Journal: &counter{}}} {
		m := New(o)
		var decided atomic.Int64
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
						m.makeRoom(r.Uint64(), moment{}, m.reclaimed.Load())
					default:
						l.Allow(k)
					}
					decided.Add(1)
				}
			})
		}
		done := make(chan struct{})
		go func() {
			callers.Wait()
			close(done)
		}()
		for last := int64(-1); ; {
			select {
			case <-done:
			case <-time.After(30 * time.Second):
				if now := decided.Load(); now == last {
					panic(fmt.Sprintf("no call has ended for 30 s, after %d", now)) // shows all goroutines
				} else {
					last = now
				}
				continue
			}
			break
		}
		checkWhole(t, m)
		checkEmptied(t, m)
	}
}

// counter is a journal that only counts.
type counter struct{ changes atomic.Int64 }

func (c *counter) Append(changes []Change) { c.changes.Add(int64(len(changes))) }
