package envoy

import "sync"

// cache remembers up to mostCached values by bytes. The zero cache is empty.
type cache[T any] struct {
	mu sync.RWMutex // protects the following
	of map[string]*T
}

// get returns nil for what is not there.
func (c *cache[T]) get(key []byte) *T {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.of[string(key)]
}

func (c *cache[T]) put(key []byte, v *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]*T{}
	}
	if len(c.of) >= mostCached {
		clear(c.of)
	}
	c.of[string(key)] = v
}
