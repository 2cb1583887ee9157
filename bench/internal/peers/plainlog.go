package peers

import (
	"sync"
	"time"
)

// plainLog is the exact limiter a careful programmer writes in ten minutes: one
// mutex, one map, one slice of instants a key.
func plainLog() Peer {
	return Peer{
		Name: "plain exact log", Kind: RollingLog,
		Note: "written here: a mutex, a map and a slice of instants a key",
		New: func(limit int, window time.Duration) Limiter {
			return &plain{limit: limit, window: int64(window), base: time.Now(), keys: map[string]*plainKey{}}
		},
	}
}

type plain struct {
	limit  int
	window int64     // nanoseconds
	base   time.Time // instants are counted from here, on the monotonic clock

	mu   sync.Mutex // protects the following
	keys map[string]*plainKey
}

type plainKey struct{ granted []int64 } // instants in order, nanoseconds since base

func (p *plain) Allow(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := int64(time.Since(p.base))
	k := p.keys[key]
	if k == nil {
		k = &plainKey{}
		p.keys[key] = k
	}
	for len(k.granted) > 0 && k.granted[0] <= now-p.window {
		k.granted = k.granted[1:]
	}
	if len(k.granted) >= p.limit {
		return false
	}
	k.granted = append(k.granted, now)
	return true
}
