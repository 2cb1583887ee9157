package redispeers

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"

	"github.com/weirlimit/weir/bench/internal/peers"
)

func rueidisLimiter() Peer {
	return Peer{
		Peer: peers.Peer{Name: "rueidislimiter", Module: "github.com/redis/rueidis/rueidislimiter", Kind: peers.FixedWindow, Note: "rueidis with its defaults; the callers' clocks"},
		Open: func(addr string, limit int, window time.Duration) (Limiter, error) {
			var c rueidis.Client
			l, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
				ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
				ClientBuilder: func(o rueidis.ClientOption) (client rueidis.Client, err error) {
					c, err = rueidis.NewClient(o)
					return c, err
				},
				Limit: limit, Window: window,
			})
			if err != nil {
				return nil, err
			}
			closed := func() error {
				c.Close()
				return nil
			}
			return &limiter{close: closed, allow: func(ctx context.Context, key string) (bool, error) {
				answer, err := l.Allow(ctx, key)
				return answer.Allowed, err
			}}, nil
		},
	}
}
