package peers

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
)

// Weir is the name of the contestant to which all ratios refer.
const Weir = "weir"

type weirLimiter struct{ l *weir.Limiter }

func (w weirLimiter) Allow(key string) bool {
	d, err := w.l.Allow(context.Background(), weir.K(key))
	if err != nil {
		panic(err)
	}
	return d.Allowed
}

// WeirPolicy is the policy of the contestant: one exact limit.
func WeirPolicy(limit int, window time.Duration) weir.Policy {
	return weir.Policy{Name: "bench", Limits: []weir.Limit{weir.Per(int64(limit), window, "key")}}
}

func weirPeer() Peer {
	return Peer{
		Name: Weir, Module: "github.com/weirlimit/weir", Kind: RollingLog,
		Note: "Limiter.Allow on the memory engine: decision, remaining, waits, binding limit",
		New: func(limit int, window time.Duration) Limiter {
			l, err := weir.New(WeirPolicy(limit, window))
			if err != nil {
				panic(err)
			}
			return weirLimiter{l}
		},
	}
}
