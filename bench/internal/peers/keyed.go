package peers

import (
	"context"
	"math"
	"time"

	"github.com/didip/tollbooth/v8"
	tblimiter "github.com/didip/tollbooth/v8/limiter"
	"github.com/joeycumines/go-catrate"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ululelimiter "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
)

// The libraries in this file have keys of their own.

// allow is a Limiter that is one function.
type allow func(key string) bool

func (f allow) Allow(key string) bool { return f(key) }

// must panics on an error: a peer that cannot decide has no measurement.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ulule() Peer {
	return Peer{
		Name: "ulule/limiter", Module: "github.com/ulule/limiter/v3", Kind: FixedWindow,
		Note: "memory store",
		New: func(limit int, window time.Duration) Limiter {
			l := ululelimiter.New(ululememory.NewStore(), ululelimiter.Rate{Limit: int64(limit), Period: window})
			return allow(func(key string) bool {
				return !must(l.Get(context.Background(), key)).Reached
			})
		},
	}
}

func throttledGCRA() Peer {
	return Peer{
		Name: "throttled", Module: "github.com/throttled/throttled/v2", Kind: GCRA,
		Note: "memory store without a cap, burst = limit",
		New: func(limit int, window time.Duration) Limiter {
			store := must(memstore.NewCtx(0))
			quota := throttled.RateQuota{MaxRate: throttled.PerDuration(limit, window), MaxBurst: limit - 1}
			l := must(throttled.NewGCRARateLimiterCtx(store, quota))
			return allow(func(key string) bool {
				limited, _, err := l.RateLimitCtx(context.Background(), key, 1)
				// After ten lost races it returns an error; its users deny then.
				return err == nil && !limited
			})
		},
	}
}

func sethvargo() Peer {
	return Peer{
		Name: "sethvargo/go-limiter", Module: "github.com/sethvargo/go-limiter", Kind: Refill,
		Note: "memory store",
		New: func(limit int, window time.Duration) Limiter {
			return storeOfTokens{must(memorystore.New(&memorystore.Config{Tokens: uint64(limit), Interval: window}))}
		},
	}
}

type storeOfTokens struct{ store limiter.Store }

func (s storeOfTokens) Allow(key string) bool {
	_, _, _, ok, err := s.store.Take(context.Background(), key)
	return must(ok, err)
}

// Close ends the goroutine of the store, which otherwise keeps its keys alive.
func (s storeOfTokens) Close() error { return s.store.Close(context.Background()) }

func tollboothKeys() Peer {
	return Peer{
		Name: "tollbooth", Module: "github.com/didip/tollbooth/v8", Kind: TokenBucket,
		Note: "LimitByKeys, burst = limit",
		New: func(limit int, window time.Duration) Limiter {
			l := tollbooth.NewLimiter(float64(perSecond(limit, window)), &tblimiter.ExpirableOptions{DefaultExpirationTTL: time.Hour})
			l.SetBurst(int(math.Max(1, float64(limit))))
			return allow(func(key string) bool { return tollbooth.LimitByKeys(l, []string{key}) == nil })
		},
	}
}

func catrateRing() Peer {
	return Peer{
		Name: "joeycumines/go-catrate", Module: "github.com/joeycumines/go-catrate", Kind: RollingLog,
		New: func(limit int, window time.Duration) Limiter {
			l := catrate.NewLimiter(map[time.Duration]int{window: limit})
			return allow(func(key string) bool {
				_, ok := l.Allow(key)
				return ok
			})
		},
	}
}
