//go:build unix

package listen

import (
	"math"
	"syscall"
)

// Descriptors is how many file descriptors the process may have open, 0 if there is no
// known limit. Each connection is one.
func Descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
