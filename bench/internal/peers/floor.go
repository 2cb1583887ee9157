package peers

import (
	"sync"
	"time"
)

// Two rows are no contestants: they show what the numbers of the others are
// made of.

// Loop is what the measuring loop costs by itself: a limiter that does nothing.
func Loop() Peer {
	return Peer{Name: "loop", Kind: NoLimit, New: func(int, time.Duration) Limiter { return nothing{} }}
}

type nothing struct{}

func (nothing) Allow(key string) bool { return key != "" }

// Floor is the least that an exact answer by key costs in Go: one lock for
// everybody, one map, one reading of the monotonic clock, a slice of numbers. It
// answers yes or no, says nothing of remaining units or waits, decides one limit
// only, and forgets no key.
func Floor() Peer {
	return Peer{
		Name: "floor", Kind: RollingLog,
		New: func(limit int, window time.Duration) Limiter {
			return &floor{limit: limit, window: int64(window), base: time.Now(), granted: map[string]*[]int64{}}
		},
	}
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
