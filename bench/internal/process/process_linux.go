package process

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// ThreadCPU returns the processor time of the calling thread. Unlike a wall clock it stops
// while another process runs on the core.
func ThreadCPU() time.Duration {
	const clockThreadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPU, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

// PeakResident returns the peak resident memory of this process, in bytes. Getrusage would
// include the parent's memory before exec.
func PeakResident() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return usage().Maxrss << 10
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return usage().Maxrss << 10
}
