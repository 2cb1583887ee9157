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

// allocate extends a file with zeros for which the disk has room, and reports whether it
// has. A file system that cannot, or is full, leaves the file as it is.
func allocate(f *os.File, offset, n int64) bool {
	return syscall.Fallocate(int(f.Fd()), 0, offset, n) == nil
}

// mapped returns n bytes of a file as memory, nil if the system does not map them.
func mapped(f *os.File, offset, n int64) []byte {
	b, err := syscall.Mmap(int(f.Fd()), offset, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return b
}

func unmap(b []byte) { syscall.Munmap(b) }
