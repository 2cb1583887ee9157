package weirdisk

import (
	"os"
	"syscall"
)

// sync writes the data of a file, and its size, to stable storage.
func (f systemFile) sync() error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// allocate extends a file with zeros for which the disk has room. A file system that cannot,
// or is full, leaves the file as it is.
func (f systemFile) allocate(offset, n int64) { syscall.Fallocate(int(f.Fd()), 0, offset, n) }
