package peers

import (
	"hash/maphash"
	"sync"
	"time"
)

// Loop, Floor and ShardedFloor are not contestants. They show the parts of the other
// numbers.

// Loop is a limiter that does nothing: the cost of the measuring loop itself.
func Loop() Peer {
	return Peer{Name: "loop", Kind: NoLimit, New: func(int, time.Duration) Limiter { return nothing{} }}
}

type nothing struct{}

func (nothing) Allow(key string) bool { return key != "" }

// Floor is the least cost of an exact answer by key in Go: one lock for all callers, one
// map, one reading of the monotonic clock, a slice of numbers. It returns yes or no,
// without remaining units and waits, decides one limit only, and evicts no key.
func Floor() Peer {
	return Peer{
		Name: "floor", Kind: RollingLog,
		New: func(limit int, window time.Duration) Limiter { return newFloor(limit, window, time.Now()) },
	}
}

// ShardedFloor is Floor with a lock and a map for each of 64 parts of the keys, as Weir has
// them. With several goroutines one lock for all is no floor.
func ShardedFloor() Peer {
	return Peer{
		Name: "floor, 64 locks", Kind: RollingLog,
		New: func(limit int, window time.Duration) Limiter {
			s := &shardedFloor{seed: maphash.MakeSeed()}
			base := time.Now()
			for i := range s.shards {
				s.shards[i].floor = newFloor(limit, window, base)
			}
			return s
		},
	}
}

type shardedFloor struct {
	seed   maphash.Seed
	shards [64]struct {
		*floor
		_ [56]byte // a cache line each
	}
}

func (s *shardedFloor) Allow(key string) bool {
	return s.shards[maphash.String(s.seed, key)%64].Allow(key)
}

func newFloor(limit int, window time.Duration, base time.Time) *floor {
	return &floor{limit: limit, window: int64(window), base: base, granted: map[string]*[]int64{}}
}

type floor struct {
	limit  int
	window int64     // nanoseconds
	base   time.Time // instants are nanoseconds since base, on the monotonic clock

	mu      sync.Mutex          // protects the following
	granted map[string]*[]int64 // instants in order
}

func (f *floor) Allow(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := int64(time.Since(f.base))
	log := f.granted[key]
	if log == nil {
		log = new([]int64)
		f.granted[key] = log
	}
	for len(*log) > 0 && (*log)[0] <= now-f.window {
		*log = (*log)[1:]
	}
	if len(*log) >= f.limit {
		return false
	}
	*log = append(*log, now)
	return true
}
