package peers

import (
	"sync"
	"time"

	"github.com/RussellLuo/slidingwindow"
	beefrate "github.com/beefsack/go-rate"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	jujurate "github.com/juju/ratelimit"
)

// perKey gives a limiter without keys the map that its users write around it.
type perKey struct {
	m     sync.Map
	fresh func() any
	allow func(any) bool
}

func (p *perKey) Allow(key string) bool {
	v, ok := p.m.Load(key)
	if !ok {
		v, _ = p.m.LoadOrStore(key, p.fresh())
	}
	return p.allow(v)
}

func failsafeBursty() Peer {
	type limiter = ratelimiter.RateLimiter[any]
	return Peer{
		Name: "failsafe-go bursty", Module: "github.com/failsafe-go/failsafe-go", Kind: Refill,
		Note: "a sync.Map of bursty rate limiters",
		New: func(limit int, window time.Duration) Limiter {
			return &perKey{
				fresh: func() any { return ratelimiter.NewBursty[any](uint(limit), window) },
				allow: func(v any) bool { return v.(limiter).TryAcquirePermit() },
			}
		},
	}
}

func juju() Peer {
	return Peer{
		Name: "juju/ratelimit", Module: "github.com/juju/ratelimit", Kind: TokenBucket,
		Note: "a sync.Map of buckets, capacity = limit",
		New: func(limit int, window time.Duration) Limiter {
			return &perKey{
				fresh: func() any {
					return jujurate.NewBucketWithRate(float64(perSecond(limit, window)), int64(limit))
				},
				allow: func(v any) bool { return v.(*jujurate.Bucket).TakeAvailable(1) == 1 },
			}
		},
	}
}

func slidingWindow() Peer {
	local := func() (slidingwindow.Window, slidingwindow.StopFunc) { return slidingwindow.NewLocalWindow() }
	return Peer{
		Name: "RussellLuo/slidingwindow", Module: "github.com/RussellLuo/slidingwindow", Kind: SlidingCounter,
		Note: "a sync.Map of limiters with local windows",
		New: func(limit int, window time.Duration) Limiter {
			return &perKey{
				fresh: func() any {
					l, _ := slidingwindow.NewLimiter(window, int64(limit), local)
					return l
				},
				allow: func(v any) bool { return v.(*slidingwindow.Limiter).Allow() },
			}
		},
	}
}

func beefsack() Peer {
	return Peer{
		Name: "beefsack/go-rate", Module: "github.com/beefsack/go-rate", Kind: RollingLog,
		Note: "a sync.Map of limiters",
		New: func(limit int, window time.Duration) Limiter {
			return &perKey{
				fresh: func() any { return beefrate.New(limit, window) },
				allow: func(v any) bool {
					ok, _ := v.(*beefrate.RateLimiter).Try()
					return ok
				},
			}
		},
	}
}
