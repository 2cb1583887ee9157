// Package memstats measures the memory of a test.
package memstats

import "runtime"

// Live returns the bytes that are in use after a collection.
func Live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Allocated returns the bytes that were allocated since the start of the program.
func Allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
