package redispeers

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ululelimiter "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/weirlimit/weir/bench/internal/peers"
)

// The libraries in this file decide through go-redis.

func ulule() Peer {
	return Peer{
		Peer: peers.Peer{Name: "ulule/limiter", Module: "github.com/ulule/limiter/v3", Kind: peers.FixedWindow, Note: "redis store"},
		Open: func(addr string, limit int, window time.Duration) (Limiter, error) {
			c := client(addr)
			store, err := ululeredis.NewStore(c)
			if err != nil {
				return nil, err
			}
			l := ululelimiter.New(store, ululelimiter.Rate{Limit: int64(limit), Period: window})
			return &limiter{close: c.Close, allow: func(ctx context.Context, key string) (bool, error) {
				answer, err := l.Get(ctx, key)
				return err == nil && !answer.Reached, err
			}}, nil
		},
	}
}

func throttledGCRA() Peer {
	return Peer{
		Peer: peers.Peer{Name: "throttled", Module: "github.com/throttled/throttled/v2", Kind: peers.GCRA, Note: "goredisstore.v9, burst = limit; compare-and-swap, gives up with an error after ten lost races"},
		Open: func(addr string, limit int, window time.Duration) (Limiter, error) {
			c := client(addr)
			store, err := goredisstore.NewCtx(c, "throttled:")
			if err != nil {
				return nil, err
			}
			quota := throttled.RateQuota{MaxRate: throttled.PerDuration(limit, window), MaxBurst: limit - 1}
			l, err := throttled.NewGCRARateLimiterCtx(store, quota)
			return &limiter{close: c.Close, allow: func(ctx context.Context, key string) (bool, error) {
				limited, _, err := l.RateLimitCtx(ctx, key, 1)
				return err == nil && !limited, err
			}}, err
		},
	}
}

func httprateRedis() Peer {
	return Peer{
		Peer: peers.Peer{Name: "httprate-redis", Module: "github.com/go-chi/httprate-redis", Kind: peers.SlidingCounter,
			Note: "RateLimiter.OnLimit as httprate's middleware calls it, headers included; no local fallback, so that every decision is made on Redis"},
		Open: openHTTPRate,
	}
}

func openHTTPRate(addr string, limit int, window time.Duration) (Limiter, error) {
	c := client(addr)
	counter := httprateredis.NewCounter(&httprateredis.Config{Client: c, FallbackDisabled: true})
	l := httprate.NewRateLimiter(limit, window, httprate.WithLimitCounter(counter))
	request, err := http.NewRequest(http.MethodGet, "http://bench/", nil)
	if err != nil {
		return nil, err
	}
	writers := sync.Pool{New: func() any { return headersOnly{} }}
	return &limiter{close: counter.Close, allow: func(_ context.Context, key string) (bool, error) {
		w := writers.Get().(headersOnly)
		limited := l.OnLimit(w, request, key)
		clear(w)
		writers.Put(w)
		return !limited, nil
	}}, nil
}

// headersOnly is a ResponseWriter that keeps headers and drops the rest.
type headersOnly http.Header

func (w headersOnly) Header() http.Header         { return http.Header(w) }
func (w headersOnly) Write(b []byte) (int, error) { return len(b), nil }
func (w headersOnly) WriteHeader(int)             {}
