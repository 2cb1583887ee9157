package weir

import (
	"fmt"
	"testing"
)

// users returns the keys of n users.
func users(n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = K(fmt.Sprintf("user:%08d", i))
	}
	return keys
}

// BenchmarkAllow measures a decision of a Limiter on the memory engine. bench/ compares it
// with other limiters. Of the buckets, 77 a second is a rate of a fraction of a microsecond.
func BenchmarkAllow(b *testing.B) {
	for _, n := range []int{1, 2, 4} {
		benchmarkAllow(b, fmt.Sprintf("limits=%d", n), limits(n))
	}
	for _, most := range []int64{100, 77, 10_000_000} { // mostly denied, and all granted
		p := limits(1)
		p.Limits[0].Kind, p.Limits[0].Max = KindBucket, most
		benchmarkAllow(b, fmt.Sprintf("bucket=%d", most), p)
	}
}

func benchmarkAllow(b *testing.B, name string, p Policy) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d/%s", n, name), func(b *testing.B) {
			l, keys := mustNew(b, p), users(n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + 7919) % n {
				l.Allow(ctx, keys[i])
			}
		})
	}
}
