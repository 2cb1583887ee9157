package weir

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
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
// The rows observed=1 have a limit and an observer that counts grants, beside those of limits=1.
func BenchmarkAllow(b *testing.B) {
	memory := func() engine.Engine { return NewMemory() }
	for _, n := range []int{1, 2, 4} {
		benchmarkAllow(b, fmt.Sprintf("limits=%d", n), limits(n), memory)
	}
	var granted atomic.Int64
	count := func(_ context.Context, c *engine.Call, _ time.Duration) {
		if c.Result.Allowed {
			granted.Add(1)
		}
	}
	benchmarkAllow(b, "observed=1", limits(1), func() engine.Engine { return Observe(NewMemory(), count) })
	for _, most := range []int64{100, 77, 10_000_000} { // mostly denied, and all granted
		p := limits(1)
		p.Limits[0].Kind, p.Limits[0].Max = KindBucket, most
		benchmarkAllow(b, fmt.Sprintf("bucket=%d", most), p, memory)
	}
}

func benchmarkAllow(b *testing.B, name string, p Policy, newEngine func() engine.Engine) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d/%s", n, name), func(b *testing.B) {
			l, keys := mustNew(b, p, WithEngine(newEngine())), users(n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + 7919) % n {
				l.Allow(ctx, keys[i])
			}
		})
	}
}

// BenchmarkDecide measures the path of requests with options, which looks up the form that the
// engine gave to the rules: of one policy, or of many policies in turn.
func BenchmarkDecide(b *testing.B) {
	for _, policies := range []int{1, 16, 1024} {
		b.Run(fmt.Sprintf("policies=%d", policies), func(b *testing.B) {
			e, keys := NewMemory(), users(16)
			all := make([]*Limiter, policies)
			for i := range all {
				p := limits(1)
				p.Name += fmt.Sprint(i)
				all[i] = mustNew(b, p, WithEngine(e))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + 1) & 1023 {
				all[i&(policies-1)].Decide(ctx, keys[i&15], Request{N: 1})
			}
		})
	}
}
