package weir

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkDecideAll compares 32 calls of Allow with one batch of 32, on the same keys in
// turns. The metric is the median of the ratios of their times; the goal is 1.5.
//
//	go test -run xxx -bench DecideAll -benchtime 20000x
func BenchmarkDecideAll(b *testing.B) {
	const size = 32
	for _, keys := range []int{1, 100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			l, err := New(Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 1000, Window: time.Second, By: []string{"user"}}}})
			if err != nil {
				b.Fatal(err)
			}
			all := make([]Key, keys)
			for i := range all {
				all[i] = K(fmt.Sprintf("user-%011d", i))
				l.Allow(ctx, all[i])
			}
			calls := make([]Call, size)
			var ratios []float64
			next := 0
			draw := func() {
				for i := range calls {
					next = (next + 1) % keys
					calls[i] = Call{Key: all[next], Request: Request{N: 1}}
				}
			}
			const rounds = 16
			var single, batch time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				draw()
				began := time.Now()
				for j := range calls {
					calls[j].Decision, calls[j].Err = l.Allow(ctx, calls[j].Key)
				}
				middle := time.Now()
				draw()
				between := time.Now()
				DecideAll(ctx, calls)
				single, batch = single+middle.Sub(began), batch+time.Since(between)
				if i%rounds == rounds-1 {
					ratios = append(ratios, float64(single)/float64(batch))
					single, batch = 0, 0
				}
			}
			if len(ratios) > 0 {
				slices.Sort(ratios)
				b.ReportMetric(ratios[len(ratios)/2], "ratio")
			}
		})
	}
}
