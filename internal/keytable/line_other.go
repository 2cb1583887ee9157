//go:build !(amd64 || arm64) || race || purego

package keytable

import "sync/atomic"

func prefetch(*Slot) {}

func storeRelease(p *atomic.Uint64, value uint64) { p.Store(value) }
