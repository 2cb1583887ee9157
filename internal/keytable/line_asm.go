//go:build (amd64 || arm64) && !race && !purego

package keytable

import "sync/atomic"

// prefetch begins to load a slot's line. Reading the clock does not wait for it, as it would
// for a load.
//
//go:noescape
func prefetch(slot *Slot)

// storeRelease stores a value behind all earlier stores. Store would wait until these have
// reached the cache.
//
//go:noescape
func storeRelease(p *atomic.Uint64, value uint64)
