package weir

import (
	"fmt"
	"testing"
	"time"
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
		p.Limits[0].Kind, p.Limits[0].Max = Bucket, most
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

// BenchmarkDecideAll measures a batch of 32 calls. The goal is two thirds of the time of 32
// calls of Allow (BenchmarkAllow).
func BenchmarkDecideAll(b *testing.B) {
	for _, n := range []int{1, 100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			l, keys, calls := mustNew(b, perUser(1000, time.Second)), users(n), make([]Call, 32)
			for _, k := range keys {
				l.Allow(ctx, k)
			}
			b.ReportAllocs()
			for next := 0; b.Loop(); {
				for i := range calls {
					next = (next + 1) % n
					calls[i] = Call{Limiter: l, Key: keys[next], Request: Request{N: 1}}
				}
				DecideAll(ctx, calls)
			}
		})
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
