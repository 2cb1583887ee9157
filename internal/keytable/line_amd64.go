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
// the earlier stores have reached the cache. BenchmarkSlots of internal/memory shows the price with
// the tag purego, as medians of two runs of 7 and 9 rounds on two cores of an AMD EPYC (2026-11-29):
// 1.10 and 1.06 with 10 entries a key, 1.17 and 1.06 with 100, 1.12 and 1.07 with a million keys,
// and 0.95 to 0.96 on one key and on 10,000 keys that are almost empty.
func storeRelease(p *atomic.Uint64, value uint64) {
	raceRelease(p)
	storePlain(p, value)
}

//go:noescape
func storePlain(p *atomic.Uint64, value uint64)
