package weirdisk

import (
	"os"
	"syscall"
)

// syncData writes the data of a file, and its size, to stable storage.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// allocate extends a file with zeros for which the disk has room. A file system that cannot,
// or is full, leaves the file as it is.
func allocate(f *os.File, offset, n int64) { syscall.Fallocate(int(f.Fd()), 0, offset, n) }
