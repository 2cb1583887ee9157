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

// allocate extends a file with zeros and reserves their room on the disk. A file system that is
// full, or cannot do that, leaves the file as it is.
func (f systemFile) allocate(offset, n int64) { syscall.Fallocate(int(f.Fd()), 0, offset, n) }
