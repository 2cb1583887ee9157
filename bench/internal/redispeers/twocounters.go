package redispeers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/peers"
)

// twoCounters is the sliding window of mennanov/limiters (v1.11.0) on Redis, rewritten: the
// library itself would add the clients of eight stores. Windows follow the callers' clocks.
// One pipeline counts the attempt in the current window, granted or not, and reads the
// previous one. The previous window counts in proportion to its part that a window ending
// now covers.
const twoCounters = "two counters"

func twoCountersPeer() Peer {
	note := "as mennanov/limiters' SlidingWindow: INCR, PEXPIRE and GET in a pipeline, denied attempts are counted; through go-redis"
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
			earlier, _ := before.Int64() // 0 if there is no such window
			weighed := float64(earlier)*float64(left)/float64(window) + float64(count.Val())
			return weighed <= float64(limit), nil
		}}, nil
	})
}
