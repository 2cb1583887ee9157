// Package process reads the resources that this process has used from the operating
// system. It needs Unix.
package process

import (
	"runtime"
	"syscall"
	"time"
)

// CPU returns the processor time of this process so far: user and system, garbage
// collector included.
func CPU() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Heap returns the bytes of live objects after a collection.
func Heap() uint64 {
	// The second collection frees the objects that finalizers and pools kept.
	runtime.GC()
	runtime.GC()
	return Memory().HeapAlloc
}

// Memory returns the runtime's statistics. It stops the program for a moment.
func Memory() runtime.MemStats {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m
}

func usage() syscall.Rusage {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // impossible: the arguments are constants
	}
	return u
}
