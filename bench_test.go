package weir

import (
	"fmt"
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
		b.Run(fmt.Sprintf("keys=%d/limits=1/general", keys), func(b *testing.B) {
			l := mustNew(b, limits(1))
			l.simple, l.memory.compiled(l.plan).simple = nil, false // see Memory.allowSimple
			benchmarkAllow(b, l, users)
		})
	}
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
				l.AllowAt(ctx, K("42"), 1, time.UnixMicro(at))
			}
		})
	}
}
