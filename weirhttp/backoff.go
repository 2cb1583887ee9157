package weirhttp

import (
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/keyenc"
)

// backoffs remembers for each key until when servers requested to receive nothing. When
// it is full, further keys are not remembered; the server repeats its request.
type backoffs struct {
	mu    sync.Mutex // protects the following
	until map[string]time.Time
}

// maxBackoffs bounds the number of remembered keys.
const maxBackoffs = 10_000

func newBackoffs() *backoffs { return &backoffs{until: map[string]time.Time{}} }

// encodeKey returns a key as one string.
func encodeKey(k *weir.Key) string {
	var b []byte
	for i := range k.Len() {
		b = keyenc.Append(b, k.Value(i))
	}
	return string(b)
}

// left returns the rest of the key's backoff at now; 0 or less if there is none.
func (b *backoffs) left(k weir.Key, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.until) == 0 {
		return 0
	}
	key := encodeKey(&k)
	until, found := b.until[key]
	if !found {
		return 0
	}
	left := until.Sub(now)
	if left <= 0 {
		delete(b.until, key)
	}
	return left
}

// extend lengthens the key's backoff to until; it never shortens one.
func (b *backoffs) extend(k weir.Key, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := encodeKey(&k)
	before, found := b.until[key]
	if found && !until.After(before) || !found && len(b.until) >= maxBackoffs && !b.sweepLocked(time.Now()) {
		return
	}
	b.until[key] = until
}

// sweepLocked deletes backoffs that are over, and reports whether there were any.
func (b *backoffs) sweepLocked(now time.Time) (deleted bool) {
	for key, until := range b.until {
		if !until.After(now) {
			delete(b.until, key)
			deleted = true
		}
	}
	return deleted
}
