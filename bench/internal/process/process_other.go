//go:build unix && !linux

package process

import (
	"runtime"
	"time"
)

// ThreadCPU returns the processor time of the whole process, because that of a thread is
// not available: too much, never too little.
func ThreadCPU() time.Duration { return CPU() }

// PeakResident returns the peak resident memory of this process, in bytes.
func PeakResident() int64 {
	if runtime.GOOS == "darwin" {
		return usage().Maxrss // bytes on these systems, KiB on Linux
	}
	return usage().Maxrss << 10
}
