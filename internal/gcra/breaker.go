package gcra

import (
	"sync/atomic"
	"time"
)

// breaker keeps attempts from waiting for a Redis that is gone: after a few
// failures in a row only one attempt in a while is let through, to see whether it
// is back.
type breaker struct {
	start   time.Time
	strikes atomic.Int64 // failures in a row
	probeAt atomic.Int64 // nanoseconds since start; while open, nobody is let through before
}

const (
	mostStrikes = 5
	probeEvery  = 250 * time.Millisecond
)

// admit returns errDown if the attempt should not be made, and reports whether it is
// one that is to see whether Redis is back.
func (b *breaker) admit() (probe bool, err error) {
	if b.strikes.Load() < mostStrikes {
		return false, nil
	}
	now := int64(time.Since(b.start))
	at := b.probeAt.Load()
	if now < at || !b.probeAt.CompareAndSwap(at, now+int64(probeEvery)) {
		return false, errDown
	}
	return true, nil
}

// note takes in how an attempt ended.
func (b *breaker) note(err error) {
	if !isOutage(err) {
		if b.strikes.Load() != 0 {
			b.strikes.Store(0)
		}
		return
	}
	if b.strikes.Add(1) == mostStrikes {
		b.probeAt.Store(int64(time.Since(b.start) + probeEvery))
	}
}
