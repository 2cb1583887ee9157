package peers

import (
	"sync"
	"time"
)

// plainLog is a simple exact limiter: a map of keys, each with a lock and the instants of
// its grants.
func plainLog() Peer {
	return Peer{
		Name: "plain exact log", Kind: RollingLog,
		Note: "written here: a map of keys, each with a mutex and a slice of time.Time; returns yes or no, drops no key",
		New: func(limit int, window time.Duration) Limiter {
			return &plain{limit: limit, window: window, keys: map[string]*plainKey{}}
		},
	}
}

type plain struct {
	limit  int
	window time.Duration

	mu   sync.Mutex // protects the following
	keys map[string]*plainKey
}

type plainKey struct {
	mu      sync.Mutex // protects the following
	granted []time.Time
}

func (p *plain) Allow(key string) bool {
	k := p.key(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for len(k.granted) > 0 && now.Sub(k.granted[0]) >= p.window {
		k.granted = k.granted[1:]
	}
	if len(k.granted) >= p.limit {
		return false
	}
	k.granted = append(k.granted, now)
	return true
}

func (p *plain) key(key string) *plainKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	if k == nil {
		k = &plainKey{}
		p.keys[key] = k
	}
	return k
}
