package peers

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// xtimeMap does not use perKey: as the yardstick it must not pay for an indirect call.
type xtimeMap struct {
	m     sync.Map // string -> *rate.Limiter
	every rate.Limit
	burst int
}

func (x *xtimeMap) Allow(key string) bool {
	v, ok := x.m.Load(key)
	if !ok {
		v, _ = x.m.LoadOrStore(key, rate.NewLimiter(x.every, x.burst))
	}
	return v.(*rate.Limiter).Allow()
}

func xtime() Peer {
	return Peer{
		Name: "x/time/rate", Module: "golang.org/x/time", Kind: TokenBucket,
		Note: "a sync.Map of limiters, burst = limit",
		New: func(limit int, window time.Duration) Limiter {
			return &xtimeMap{every: perSecond(limit, window), burst: limit}
		},
	}
}

func xtimeSpaced() Peer {
	return Peer{
		Name: "x/time/rate, burst 1", Module: "golang.org/x/time", Kind: Spacing,
		Note: "the same with burst 1: never two together", ShowOnly: true,
		New: func(limit int, window time.Duration) Limiter {
			return &xtimeMap{every: perSecond(limit, window), burst: 1}
		},
	}
}

func perSecond(limit int, window time.Duration) rate.Limit {
	return rate.Limit(float64(limit) / window.Seconds())
}
