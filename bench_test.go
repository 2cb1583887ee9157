package weir

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkAllow measures a decision of a Limiter on the memory engine. bench/ compares it
// with other limiters.
func BenchmarkAllow(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		users := make([]string, keys)
		for i := range users {
			users[i] = fmt.Sprintf("user:%08d", i)
		}
		for _, n := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("keys=%d/limits=%d", keys, n), func(b *testing.B) {
				l := mustNew(b, limits(n))
				benchmarkAllow(b, l, users)
			})
		}
	}
}

// BenchmarkBucket measures a decision about a token bucket beside one about a rolling
// window of the same numbers, on the same keys. Both take turns in short rounds, and the
// medians count, so that their ratio is also right on a busy machine. With 100 a second
// most attempts are denied, with 10,000,000 all are granted. 77 a second is a rate of a
// fraction of a microsecond. In the last one a unit leaves or flows in for each grant.
func BenchmarkBucket(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		users := make([]string, keys)
		for i := range users {
			users[i] = fmt.Sprintf("user:%08d", i)
		}
		for _, most := range []int64{100, 77, 10_000_000} {
			b.Run(fmt.Sprintf("keys=%d/max=%d", keys, most), func(b *testing.B) {
				p := limits(1)
				p.Limits[0].Max = most
				compareKinds(b, p, func(l *Limiter, i int) { l.Allow(ctx, K(users[i*7919%keys])) })
			})
		}
	}
	b.Run("full", func(b *testing.B) {
		const step = 100 * time.Microsecond
		compareKinds(b, perUser(100, 100*step), func(l *Limiter, i int) {
			l.At(time.UnixMicro(1_700_000_000_000_000+int64(i)*step.Microseconds())).Allow(ctx, K("42"))
		})
	})
}

// compareKinds reports the medians of calls on a policy with a rolling window and with a
// bucket, and their ratio.
func compareKinds(b *testing.B, p Policy, call func(l *Limiter, i int)) {
	const round = 256
	kinds := []Kind{Rolling, Bucket}
	var limiters [2]*Limiter
	for i, k := range kinds {
		p.Limits[0].Kind = k
		limiters[i] = mustNew(b, p)
	}
	var took [2][]float64
	for first := 0; b.Loop(); first += round {
		for side, l := range limiters {
			start := time.Now()
			for i := range round {
				call(l, first+i)
			}
			took[side] = append(took[side], float64(time.Since(start).Nanoseconds())/round)
		}
	}
	var medians [2]float64
	for side, k := range kinds {
		slices.Sort(took[side])
		medians[side] = took[side][len(took[side])/2]
		b.ReportMetric(medians[side], k.String()+"-ns")
	}
	b.ReportMetric(medians[1]/medians[0], "Bucket/Rolling")
}

func benchmarkAllow(b *testing.B, l *Limiter, users []string) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		l.Allow(ctx, K(users[i]))
		if i += 7919; i >= len(users) {
			i %= len(users)
		}
	}
}

// BenchmarkAllowMax measures a decision on a full window, by its Max: with every grant one
// entry leaves.
func BenchmarkAllowMax(b *testing.B) {
	const step = 100 * time.Microsecond
	for _, most := range []int64{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint("max=", most), func(b *testing.B) {
			l := mustNew(b, perUser(most, time.Duration(most)*step))
			at := int64(1_700_000_000_000_000)
			b.ReportAllocs()
			for b.Loop() {
				at += step.Microseconds()
				l.At(time.UnixMicro(at)).Allow(ctx, K("42"))
			}
		})
	}
}
