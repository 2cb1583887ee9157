//go:build race && amd64 && !purego

package keytable

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// raceRelease reports to the race detector that later holders of the lock at p see all earlier
// writes of this goroutine. The detector does not see stores in assembly.
func raceRelease(p *atomic.Uint64) { runtime.RaceRelease(unsafe.Pointer(p)) }
