package process

import (
	"runtime"
	"testing"
	"time"
)

func TestCPUCountsWork(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, thread := CPU(), ThreadCPU()
	// No timeout: the loop works until both clocks have moved.
	for n := 0; CPU()-all < time.Millisecond || ThreadCPU()-thread < time.Millisecond; n++ {
	}
}

func TestHeapCountsLiveMemory(t *testing.T) {
	const size = 8 << 20
	before := Heap()
	kept := make([]byte, size)
	after := Heap()
	runtime.KeepAlive(kept)
	// The runtime frees small things of its own meanwhile.
	if grown := int64(after) - int64(before); grown < size-size/100 || grown > size+size/4 {
		t.Errorf("after keeping %d bytes the heap grew by %d", size, grown)
	}
	if peak := PeakResident(); peak < size/2 {
		t.Errorf("PeakResident = %d, want at least half of the %d bytes kept", peak, size)
	}
}
