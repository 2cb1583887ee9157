package redispeers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/peers"
)

// twoCounters is how mennanov/limiters (v1.11.0) slides a window on Redis, in words
// of our own: the library itself would bring the clients of eight stores with it.
// Windows stand on the callers' clocks. One pipeline counts the attempt in the
// present window, granted or not, and reads the one before, of which as much counts
// as a window that ends now still covers.
const twoCounters = "two counters"

func twoCountersPeer() Peer {
	note := "as mennanov/limiters' SlidingWindow: INCR, PEXPIRE and GET in a pipeline, refused attempts are counted; through go-redis"
	return own(twoCounters, peers.SlidingCounter, note, func(addr string, limit int, window time.Duration) (Limiter, error) {
		c := client(addr)
		return &limiter{close: c.Close, allow: func(ctx context.Context, key string) (bool, error) {
			now := time.Now()
			begun := now.Truncate(window)
			left := window - now.Sub(begun)
			name := func(begins time.Time) string { return key + decimal(begins.UnixNano()) }
			var count *redis.IntCmd
			var before *redis.StringCmd
			_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				count = p.Incr(ctx, name(begun))
				p.PExpire(ctx, name(begun), left+window)
				before = p.Get(ctx, name(begun.Add(-window)))
				return nil
			})
			if err != nil && !errors.Is(err, redis.Nil) {
				return false, err
			}
			earlier, _ := before.Int64() // 0 where there is no such window
			weighed := float64(earlier)*float64(left)/float64(window) + float64(count.Val())
			return weighed <= float64(limit), nil
		}}, nil
	})
}
