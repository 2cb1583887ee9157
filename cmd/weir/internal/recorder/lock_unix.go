//go:build unix

package recorder

import (
	"os"
	"syscall"
)

// lock takes the lock of a file until it is closed, or fails if another process has it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
