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
// succeeds closes it. Calls are probes. While no calls come, a timer sends one every watchMin
// to watchMax. There is no timer while the breaker is closed, and never a waiting goroutine.
//
// A call while the store is up costs two loads and writes nothing, so callers on many
// processors do not contend.
type breaker struct {
	threshold int64             // consecutive failures that open it; 0 = it never opens
	onChange  func(cause error) // nil: it is closed again
	onFailing func(cause error) // the first of consecutive failures; nil: the store decides again
	probe     func()            // sends a probe that no caller waits for, if admit permits it

	open     atomic.Bool
	failures atomic.Int64 // consecutive

	mu       sync.Mutex // protects changes of open and failures, and the following
	cause    error      // the last failure's
	rejected error      // the answer to calls that are not sent
	probing  bool       // a probe is in flight
	probeAt  time.Time  // no probe before this instant
	since    time.Time  // last change of open
	queued   []func()   // reports of changes that are not made yet
	notifies bool       // a caller is making reports
	watcher  *watcher   // sends probes while no calls come; nil while the breaker is closed
	ended    bool       // no watcher any more
}

// watcher is the timer of the probes during one outage.
type watcher struct {
	timer *time.Timer
	pause time.Duration // most time until the next probe
}

// Probes come at a random time between these after the last one, so that processes do
// not probe in step. A recovered store is noticed within probeMax plus the time of one
// call, as long as calls arrive.
const (
	probeMin = 100 * time.Millisecond
	probeMax = 500 * time.Millisecond
)

// While no calls come, the pause between probes doubles from watchMin to watchMax. Each is
// shortened at random, by up to a half.
const (
	watchMin = time.Second
	watchMax = 5 * time.Second
)

// admit returns nil if a call may be sent now, and otherwise its answer. A probe is a call
// that is sent while the breaker is open; release must follow it.
func (b *breaker) admit() (probe bool, rejected error) {
	if !b.open.Load() {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case !b.open.Load():
		return false, nil
	case b.probing || now.Before(b.probeAt):
		return false, b.rejected
	}
	b.probing = true
	b.scheduleProbeLocked(now)
	return true, nil
}

// rejects returns the answer to calls that are not sent while the breaker is open, and nil while it
// is closed. It permits no probe.
func (b *breaker) rejects() error {
	if !b.open.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rejected
}

// scheduleProbeLocked sets the time of the next probe.
func (b *breaker) scheduleProbeLocked(now time.Time) {
	b.probeAt = now.Add(probeMin + rand.N(probeMax-probeMin))
}

// release ends a probe. After one without a result, the next call may probe.
func (b *breaker) release(hasResult bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if !hasResult {
		b.probeAt = time.Time{}
	}
}

// succeeded counts an answer of the store. While the breaker is open only a probe's
// answer counts, because other calls were sent before it opened.
func (b *breaker) succeeded(probe bool) {
	if !probe && b.failures.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe || !b.open.Load() {
		if b.failures.Swap(0) > 0 {
			b.reportLocked(b.onFailing, nil)
		}
		b.setOpenLocked(false)
	}
	b.notifyLocked()
}

// failed counts a call that the store did not decide.
func (b *breaker) failed(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	failures := b.failures.Add(1)
	if failures == 1 {
		b.reportLocked(b.onFailing, cause)
	}
	if b.open.Load() || b.threshold > 0 && failures >= b.threshold {
		// rejected does not wrap the cause: the outcome of an earlier call says nothing about
		// a later one.
		b.cause = cause
		b.rejected = fmt.Errorf("%w: not sent, because %d calls in a row failed, the last with: %v",
			engine.ErrUnavailable, failures, cause)
		b.setOpenLocked(true)
	}
	b.notifyLocked()
}

// setOpenLocked opens or closes the breaker, if it is not open or closed already.
func (b *breaker) setOpenLocked(open bool) {
	if b.open.Load() == open {
		return
	}
	b.open.Store(open)
	b.since = time.Now()
	if open {
		b.scheduleProbeLocked(b.since)
		b.watchLocked()
	} else {
		b.cause = nil
		b.endWatchLocked()
	}
	b.reportLocked(b.onChange, b.cause)
}

// reportLocked queues a report. A nil function gets none.
func (b *breaker) reportLocked(to func(cause error), cause error) {
	if to != nil {
		b.queued = append(b.queued, func() { to(cause) })
	}
}

// watchLocked starts the probes that no caller waits for.
func (b *breaker) watchLocked() {
	if b.ended || b.probe == nil {
		return
	}
	w := &watcher{pause: watchMin}
	b.watcher = w
	w.timer = time.AfterFunc(w.nextPause(), func() { b.watchOnce(w) })
}

// watchOnce sends a probe, unless one of a caller was sent just now, and sets the time of the
// next one.
func (b *breaker) watchOnce(w *watcher) {
	if !b.isWatching(w) {
		return
	}
	b.probe()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watcher == w {
		w.timer.Reset(w.nextPause())
	}
}

// isWatching reports whether w is the watcher of the current outage.
func (b *breaker) isWatching(w *watcher) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watcher == w
}

// nextPause returns the time until the next probe, and doubles the pause after it.
func (w *watcher) nextPause() time.Duration {
	pause := w.pause
	w.pause = min(2*pause, watchMax)
	return pause/2 + rand.N(pause/2)
}

// endWatchLocked stops the probes that no caller waits for.
func (b *breaker) endWatchLocked() {
	if b.watcher != nil {
		b.watcher.timer.Stop()
		b.watcher = nil
	}
}

// end stops the probes that no caller waits for, for good.
func (b *breaker) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.endWatchLocked()
}

// notifyLocked makes all queued reports, in order and one at a time. It does not hold the lock
// meanwhile: a report may call the engine, and changes made by that call are reported after it
// has returned.
func (b *breaker) notifyLocked() {
	if b.notifies {
		return
	}
	b.notifies = true
	defer func() { b.notifies = false }()
	for len(b.queued) > 0 {
		report := b.queued[0]
		b.queued = b.queued[1:]
		b.notify(report)
	}
}

// notify makes a report without b.mu, and locks it again even if the report panics.
func (b *breaker) notify(report func()) {
	b.mu.Unlock()
	defer b.mu.Lock()
	report()
}

// status returns the last change of open and, while it is open, the cause.
func (b *breaker) status() (since time.Time, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since, b.cause
}
