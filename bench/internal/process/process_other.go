//go:build unix && !linux

package process

import (
	"runtime"
	"time"
)

// ThreadCPU is the processor time of the whole process where a thread's own is
// not at hand: too much, never too little.
func ThreadCPU() time.Duration { return CPU() }

// PeakResident is the most memory this process has had resident, in bytes.
func PeakResident() int64 {
	if runtime.GOOS == "darwin" {
		return usage().Maxrss // in bytes there, in KiB elsewhere
	}
	return usage().Maxrss << 10
}
