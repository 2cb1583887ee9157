package weirdisk

import (
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
)

// files is the part of a file system that the log needs. Tests inject faults here.
type files interface {
	// create creates a file for writing, or empties it.
	create(path string) (file, error)
	// open opens a file for writing from an offset on.
	open(path string, at int64) (file, error)
	read(path string) ([]byte, error)
	truncate(path string, size int64) error
	remove(path string) error
	// syncDir makes created and removed names durable.
	syncDir(path string) error
}

// file is an open segment.
type file interface {
	io.Writer
	io.Closer
	// allocate extends the file with zeros, so that a sync of writes there need not make its
	// size durable, and store works there. It may do nothing. The next write goes where the
	// last one ended.
	allocate(offset, n int64)
	// store writes as Write does, without a system call. It reports false, and has written
	// nothing that counts, if that is not possible here.
	store(b []byte) bool
	// sync returns once everything written is on stable storage.
	sync() error
}

// system is the files of the operating system.
type system struct{}

func (system) create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &systemFile{File: f}, nil
}

func (system) open(path string, at int64) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &systemFile{File: f, end: at}, nil
}

func (system) read(path string) ([]byte, error) { return os.ReadFile(path) }

func (system) truncate(path string, size int64) error { return os.Truncate(path, size) }

func (system) remove(path string) error { return os.Remove(path) }

func (system) syncDir(path string) error {
	d, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// systemFile is a file of the operating system. A part that is allocated is also mapped into
// memory: bytes that are copied there are the system's at once, and survive a SIGKILL, at a
// tenth of the time of a system call.
type systemFile struct {
	*os.File
	end    int64 // behind the last write
	window []byte
	from   int64 // offset of the window
}

func (f *systemFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.end)
	f.end += int64(n)
	return n, err
}

func (f *systemFile) allocate(offset, n int64) {
	f.unmap()
	if allocate(f.File, offset, n) {
		f.from = offset - offset%int64(os.Getpagesize())
		f.window = mapped(f.File, f.from, offset+n-f.from)
	}
}

// store copies b to the window. A page that the disk cannot provide is a fault there: the
// next Write has the error.
func (f *systemFile) store(b []byte) (stored bool) {
	at := f.end - f.from
	if at < 0 || at+int64(len(b)) > int64(len(f.window)) {
		return false
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			f.unmap()
		}
	}()
	copy(f.window[at:], b)
	f.end += int64(len(b))
	return true
}

func (f *systemFile) unmap() {
	if f.window != nil {
		unmap(f.window)
		f.window = nil
	}
}

func (f *systemFile) sync() error { return syncData(f.File) }

func (f *systemFile) Close() error {
	f.unmap()
	return f.File.Close()
}
