// Package rulecache holds the forms that an engine made of rules, for as long as the rules live.
// Policies are reloaded, and calls that are decided together have rules of their own, so a cache
// that held its rules would grow without end.
package rulecache

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/weirlimit/weir/engine"
)

// Cache holds one value for each of the rules. A value must not lead to its rules: these would
// never be collected. The zero Cache is empty and ready for use, also concurrently. It must not
// be copied.
type Cache[T any] struct {
	// recent finds most rules without a lock, each at the place number % len. Rules that share a
	// place take it by turns. Their numbers are consecutive, so few of them do.
	recent atomic.Pointer[[]atomic.Pointer[entry[T]]]

	mu  sync.RWMutex         // protects the following, and changes of recent
	all map[uint64]*entry[T] // by the number of the rules
}

// entry is the value of the rules with a number. The cache does not change it.
type entry[T any] struct {
	number uint64
	value  T
}

// minPlaces is the least length of recent, a power of two. It grows to twice the number of
// values and more.
const minPlaces = 64

// Get returns the value of the rules, or nil without one.
func (c *Cache[T]) Get(p *engine.Compiled) *T {
	if v := c.Recent(p); v != nil {
		return v
	}
	n := p.Number()
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.all[n]
	if e == nil {
		return nil
	}
	c.place(n).Store(e)
	return &e.value
}

// Recent returns the value of the rules if that takes no lock, or nil. It is small enough to be
// inlined.
func (c *Cache[T]) Recent(p *engine.Compiled) *T {
	if all := c.recent.Load(); all != nil {
		if e := (*all)[p.Number()&uint64(len(*all)-1)].Load(); e != nil && e.number == p.Number() {
			return &e.value
		}
	}
	return nil
}

// place returns the place of the rules with a number. The caller holds mu.
func (c *Cache[T]) place(n uint64) *atomic.Pointer[entry[T]] {
	all := *c.recent.Load()
	return &all[n&uint64(len(all)-1)]
}

// Put sets the value of the rules, and returns where it is kept. Those without a number keep
// none.
func (c *Cache[T]) Put(p *engine.Compiled, value T) *T {
	n := p.Number()
	e := &entry[T]{n, value}
	if n == 0 {
		return &e.value
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[n] == nil {
		c.grow()
		// The rules must not keep the engine with its histories, either.
		runtime.AddCleanup(p, remove[T], removal[T]{weak.Make(c), n})
	}
	c.all[n] = e
	c.place(n).Store(e)
	return &e.value
}

// grow makes room for one more value. The caller holds mu.
func (c *Cache[T]) grow() {
	if c.all == nil {
		c.all = map[uint64]*entry[T]{}
		first := make([]atomic.Pointer[entry[T]], minPlaces)
		c.recent.Store(&first)
	}
	places := len(*c.recent.Load())
	if 2*len(c.all) < places {
		return
	}
	more := make([]atomic.Pointer[entry[T]], 2*places)
	c.recent.Store(&more)
	for n, e := range c.all {
		c.place(n).Store(e)
	}
}

// removal is the end of some rules in a cache.
type removal[T any] struct {
	cache  weak.Pointer[Cache[T]]
	number uint64
}

// remove removes the value of rules that were collected.
func remove[T any](r removal[T]) {
	c := r.cache.Value()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.all[r.number]
	delete(c.all, r.number)
	c.place(r.number).CompareAndSwap(e, nil)
}

// Len returns the number of values.
func (c *Cache[T]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.all)
}
