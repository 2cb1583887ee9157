//go:build !purego

package keytable

import "sync/atomic"

// prefetch begins to load a slot's cache line. Reading the clock does not wait for it, as it
// would for a load.
//
//go:noescape
func prefetch(slot *Slot)

// storeRelease stores a value after all earlier stores of this goroutine. An ordinary store of
// this architecture has that order. Store of sync/atomic is an exchange, which also waits until
// the earlier stores have reached the cache: up to a fifth of a decision on keys with many
// entries (bench/speed, with and without the tag purego).
func storeRelease(p *atomic.Uint64, value uint64) {
	raceRelease(p)
	storePlain(p, value)
}

//go:noescape
func storePlain(p *atomic.Uint64, value uint64)
