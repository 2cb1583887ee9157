package keytable

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkGrowth inserts keys into one shard, as many as a table of that many keys has
// there. The metric is the time of the longest insertion. Each insertion is timed in five
// runs, of which the median counts: a growing shard takes long in each of them, a pause of
// the machine does not.
//
//	go test ./internal/keytable -run xxx -bench Growth -benchtime 1x -count 5
func BenchmarkGrowth(b *testing.B) {
	const runs = 5
	for _, keys := range []int{10_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			took := make([][runs]time.Duration, keys/shardCount)
			var longest time.Duration
			for b.Loop() {
				for run := range runs {
					t := newTable(0, 0, 1)
					group, _ := t.Group("g", 1000)
					s := t.At(0)
					for i := range took {
						key := t.first(group, numbered(i))
						began := time.Now()
						if !s.Reserve(t, key.Key, 1) {
							b.Fatal("no room")
						}
						s.Insert(key.Key, key.text).Unlock()
						took[i][run] = time.Since(began)
					}
				}
				for i := range took {
					slices.Sort(took[i][:])
					longest = max(longest, took[i][runs/2])
				}
			}
			b.ReportMetric(float64(longest)/1000, "longest-µs")
		})
	}
}
