//go:build !amd64 || purego

package keytable

import "sync/atomic"

func prefetch(*Slot) {}

func storeRelease(p *atomic.Uint64, value uint64) { p.Store(value) }
