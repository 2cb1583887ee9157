//go:build unix

package program

import (
	"os"
	"syscall"
)

// lock waits until no other process holds the lock of the file. Closing it unlocks.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
