package peers

import (
	"sync"
	"time"

	"go.uber.org/ratelimit"
)

func uber() Peer {
	return Peer{
		Name: "uber-go/ratelimit", Module: "go.uber.org/ratelimit", Kind: Spacing,
		Note: "default slack of 10; waits in place of denying", Blocking: true,
		New: func(limit int, window time.Duration) Limiter {
			return &uberMap{fresh: func() any { return ratelimit.New(limit, ratelimit.Per(window)) }}
		},
	}
}

type uberMap struct {
	m     sync.Map // string -> ratelimit.Limiter
	fresh func() any
}

func (u *uberMap) Allow(key string) bool {
	v, ok := u.m.Load(key)
	if !ok {
		v, _ = u.m.LoadOrStore(key, u.fresh())
	}
	v.(ratelimit.Limiter).Take()
	return true
}
