package pace

import (
	"syscall"
	"time"
)

// sleep blocks a thread, because an idle Go program rounds time.Sleep up to a millisecond.
// It may return too early.
func sleep(d time.Duration) {
	wait := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&wait, nil)
}
