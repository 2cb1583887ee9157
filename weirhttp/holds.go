package weirhttp

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// holds remember until when servers want to be left alone, by key. They are what
// servers said, no promise of ours: when there are too many, further ones are not
// remembered, and the server says so again.
type holds struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// mostHolds bounds the keys remembered.
const mostHolds = 10_000

func newHolds() *holds { return &holds{until: map[string]time.Time{}} }

// nameOf is a key as one string: each value behind its length.
func nameOf(k *weir.Key) string {
	var b []byte
	for i := range k.Len() {
		v := k.Value(i)
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	return string(b)
}

// left is how long the key is still held back, as of now; 0 or less if it is not.
func (h *holds) left(k weir.Key, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.until) == 0 {
		return 0
	}
	name := nameOf(&k)
	until, held := h.until[name]
	if !held {
		return 0
	}
	left := until.Sub(now)
	if left <= 0 {
		delete(h.until, name)
	}
	return left
}

// extend holds the key back until then, if it is not held for longer. It reports
// whether it is held back.
func (h *holds) extend(k weir.Key, until time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := nameOf(&k)
	before, held := h.until[name]
	if held && !until.After(before) {
		return true
	}
	if !held && len(h.until) >= mostHolds && !h.sweep(time.Now()) {
		return false
	}
	h.until[name] = until
	return true
}

// sweep forgets holds that are over, and reports whether there were some.
func (h *holds) sweep(now time.Time) (some bool) {
	for name, until := range h.until {
		if !until.After(now) {
			delete(h.until, name)
			some = true
		}
	}
	return some
}
