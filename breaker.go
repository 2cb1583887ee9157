package weir

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// StoreState is whether a FallbackEngine asks its store.
type StoreState uint8

const (
	// StoreUp: every call is put to the store.
	StoreUp StoreState = iota
	// StoreDown: too many calls in a row failed. Calls are answered without the
	// store, except one at a time that probes whether it is back.
	StoreDown
)

// String returns "up" or "down".
func (s StoreState) String() string {
	if s == StoreDown {
		return "down"
	}
	return "up"
}

// A breaker stops asking a store that fails. It opens after so many failures in
// a row; while it is open it lets one call through every probeMin to probeMax,
// and the first of them that succeeds closes it. It has no goroutine and no
// timer: who calls looks at the clock.
//
// A call while all is well costs two loads and writes nothing, so that callers
// on many processors do not wait for each other.
type breaker struct {
	after int          // failures in a row that open it; 0 = it never opens
	clock func() int64 // nanoseconds, never back
	hear  func(StoreState, error)

	open    atomic.Bool
	strikes atomic.Int64 // failures in a row
	probeAt atomic.Int64 // while open: no probe before this instant
	probing atomic.Bool  // a probe is under way
	shut    atomic.Pointer[refusal]

	mu      sync.Mutex // protects changes of open and strikes, and the following
	since   time.Time  // when open last changed
	unheard []change   // changes that hear has not been told of
	telling bool       // somebody is telling hear
}

// A probe comes at a random time between these after the last, so that processes
// do not probe in step. A store that is back is found within probeMax and the
// time a call takes, as long as there are calls.
const (
	probeMin = 100 * time.Millisecond
	probeMax = 500 * time.Millisecond
)

// pass says what the breaker lets a call do.
type pass uint8

const (
	refused pass = iota // not asked
	asking              // asked as usual
	trying              // asked while open; release must follow
)

type change struct {
	state StoreState
	cause error
}

// refusal is the error of calls that are not made. It does not wrap its cause:
// what became of an earlier call says nothing about this one.
type refusal struct {
	strikes int64
	cause   error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%v: not asked, since %d calls in a row failed, the last with: %v", ErrUnavailable, r.strikes, r.cause)
}

func (r *refusal) Unwrap() error { return ErrUnavailable }

// admit says whether a call may be made now.
func (b *breaker) admit() pass {
	if !b.open.Load() {
		return asking
	}
	now := b.clock()
	if now < b.probeAt.Load() || !b.probing.CompareAndSwap(false, true) {
		return refused
	}
	// Another probe may have ended between the two looks.
	if !b.open.Load() {
		b.release()
		return asking
	}
	if now < b.probeAt.Load() {
		b.release()
		return refused
	}
	b.postpone(now)
	return trying
}

// postpone sets the time of the next probe.
func (b *breaker) postpone(now int64) {
	b.probeAt.Store(now + int64(probeMin+rand.N(probeMax-probeMin)))
}

// release ends a probe, whatever came of it.
func (b *breaker) release() { b.probing.Store(false) }

// again lets the next call probe: this one learnt nothing.
func (b *breaker) again() { b.probeAt.Store(b.clock()) }

// succeeded counts an answer of the store. While the breaker is open only that of
// a probe counts: the others were asked before it opened.
func (b *breaker) succeeded(p pass) {
	if p == asking && b.strikes.Load() == 0 {
		return
	}
	b.mu.Lock()
	if p == trying || !b.open.Load() {
		b.strikes.Store(0)
		if b.open.Load() {
			b.turn(StoreUp, nil)
		}
	}
	b.mu.Unlock()
	b.tell()
}

// failed counts a call that the store did not decide.
func (b *breaker) failed(cause error) {
	b.mu.Lock()
	strikes := b.strikes.Add(1)
	if b.open.Load() || b.after > 0 && strikes >= int64(b.after) {
		b.shut.Store(&refusal{strikes, cause})
		if !b.open.Load() {
			b.postpone(b.clock())
			b.turn(StoreDown, cause)
		}
	}
	b.mu.Unlock()
	b.tell()
}

// turn changes the state; b.mu is held.
func (b *breaker) turn(to StoreState, cause error) {
	b.open.Store(to == StoreDown)
	b.since = time.Now()
	if b.hear != nil {
		b.unheard = append(b.unheard, change{to, cause})
	}
}

// tell tells hear of all changes, in order and one at a time, without the lock:
// hear may ask the engine, and what that changes is told when it has returned.
func (b *breaker) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.telling {
		return
	}
	b.telling = true
	defer func() { b.telling = false }()
	for len(b.unheard) > 0 {
		c := b.unheard[0]
		b.unheard = b.unheard[1:]
		b.unlocked(func() { b.hear(c.state, c.cause) })
	}
}

// unlocked calls f without b.mu, and holds it again even if f panics.
func (b *breaker) unlocked(f func()) {
	b.mu.Unlock()
	defer b.mu.Lock()
	f()
}
