package fallback

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
)

// breaker is a circuit breaker. It opens after threshold consecutive failures. While
// it is open it admits one probe every probeMin to probeMax; the first probe that
// succeeds closes it. It has no goroutine and no timer: callers read the clock.
//
// A call while the store is up costs two loads and writes nothing, so callers on many
// processors do not contend.
type breaker struct {
	threshold int               // consecutive failures that open it; 0 = it never opens
	clock     func() int64      // nanoseconds, monotonic
	onChange  func(cause error) // nil: it is closed again

	open      atomic.Bool
	failures  atomic.Int64 // consecutive
	probeAt   atomic.Int64 // while open: no probe before this instant
	inProbe   atomic.Bool
	rejection atomic.Pointer[rejection]

	mu       sync.Mutex // protects changes of open and failures, and the following
	since    time.Time  // last change of open
	queued   []func()   // changes that onChange has not seen
	notifies bool       // a caller is running onChange
}

// Probes come at a random time between these after the last one, so that processes do
// not probe in step. A recovered store is noticed within probeMax plus the time of one
// call, as long as calls arrive.
const (
	probeMin = 100 * time.Millisecond
	probeMax = 500 * time.Millisecond
)

// rejection is the answer to calls that are not sent. err does not wrap the cause: the
// outcome of an earlier call says nothing about this one.
type rejection struct{ err, cause error }

// admit decides whether a call may be sent now. A probe is a call that is sent while the
// breaker is open; release must follow it.
func (b *breaker) admit() (sent, probe bool) {
	if !b.open.Load() {
		return true, false
	}
	now := b.clock()
	if now < b.probeAt.Load() || !b.inProbe.CompareAndSwap(false, true) {
		return false, false
	}
	// Another probe may have ended between the two loads.
	if open := b.open.Load(); !open || now < b.probeAt.Load() {
		b.release()
		return !open, false
	}
	b.scheduleProbe(now)
	return true, true
}

// scheduleProbe sets the time of the next probe.
func (b *breaker) scheduleProbe(now int64) {
	b.probeAt.Store(now + int64(probeMin+rand.N(probeMax-probeMin)))
}

// probeSoon permits the next call to probe, after a probe without a result.
func (b *breaker) probeSoon() { b.probeAt.Store(b.clock()) }

// release ends a probe.
func (b *breaker) release() { b.inProbe.Store(false) }

// succeeded counts an answer of the store. While the breaker is open only a probe's
// answer counts, because other calls were sent before it opened.
func (b *breaker) succeeded(probe bool) {
	if !probe && b.failures.Load() == 0 {
		return
	}
	b.mu.Lock()
	if probe || !b.open.Load() {
		b.failures.Store(0)
		if b.open.Load() {
			b.setOpenLocked(false, nil)
		}
	}
	b.mu.Unlock()
	b.notify()
}

// failed counts a call that the store did not decide.
func (b *breaker) failed(cause error) {
	b.mu.Lock()
	failures := b.failures.Add(1)
	if b.open.Load() || b.threshold > 0 && failures >= int64(b.threshold) {
		err := fmt.Errorf("%w: not sent, because %d calls in a row failed, the last with: %v", engine.ErrUnavailable, failures, cause)
		b.rejection.Store(&rejection{err, cause})
		if !b.open.Load() {
			b.scheduleProbe(b.clock())
			b.setOpenLocked(true, cause)
		}
	}
	b.mu.Unlock()
	b.notify()
}

func (b *breaker) setOpenLocked(open bool, cause error) {
	b.open.Store(open)
	b.since = time.Now()
	if b.onChange != nil {
		b.queued = append(b.queued, func() { b.onChange(cause) })
	}
}

// notify reports all queued changes to onChange, in order and one at a time. It does
// not hold the lock meanwhile: onChange may call the engine, and changes made by that
// call are reported after it has returned.
func (b *breaker) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.notifies {
		return
	}
	b.notifies = true
	defer func() { b.notifies = false }()
	for len(b.queued) > 0 {
		next := b.queued[0]
		b.queued = b.queued[1:]
		b.unlocked(next)
	}
}

// unlocked calls f without b.mu and locks it again even if f panics.
func (b *breaker) unlocked(f func()) {
	b.mu.Unlock()
	defer b.mu.Lock()
	f()
}

// status returns the last change of open and, while it is open, the cause.
func (b *breaker) status() (since time.Time, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() {
		cause = b.rejection.Load().cause
	}
	return b.since, cause
}
