package gcra

import (
	"sync/atomic"
	"time"
)

// breaker rejects attempts while Redis is down. After mostStrikes failures in a row it
// admits one probe in each probeEvery.
type breaker struct {
	start   time.Time
	strikes atomic.Int64 // failures in a row
	probeAt atomic.Int64 // nanoseconds since start; while open, the earliest next probe
}

const (
	mostStrikes = 5
	probeEvery  = 250 * time.Millisecond
)

// admit returns errDown if the attempt must not be sent, and reports whether it is a
// probe.
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

// note counts the result of an attempt.
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
