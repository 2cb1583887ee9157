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

// ThreadCPU is the processor time the calling thread has used. Unlike a wall
// clock it stands still while another process has the core.
func ThreadCPU() time.Duration {
	const clockThreadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPU, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

// PeakResident is the most memory this process has had resident, in bytes.
// Getrusage would include what the parent had before exec.
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
