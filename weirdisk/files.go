package weirdisk

import (
	"io"
	"os"
	"path/filepath"
)

// files is the part of a file system that the log needs. Tests inject faults here.
type files interface {
	// create creates a file for writing, or empties it.
	create(path string) (file, error)
	// open opens a file for writing from an offset on.
	open(path string, at int64) (file, error)
	read(path string) ([]byte, error)
	truncate(path string, size int64) error
	rename(from, to string) error
	remove(path string) error
	// syncDir makes created, renamed and removed names durable.
	syncDir(path string) error
}

// file is a file that is open for writing.
type file interface {
	io.Writer
	io.Closer
	// allocate extends the file with zeros, so that a sync of writes there need not make its
	// size durable. It may do nothing. The next write goes where the last one ended.
	allocate(offset, n int64)
	// sync returns once everything written is on stable storage.
	sync() error
}

// system is the files of the operating system. It follows no symbolic link to a file.
type system struct{}

func openFile(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|noFollow, 0o600)
}

func (system) create(path string) (file, error) {
	return opened(openFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC))(0)
}

func (system) open(path string, at int64) (file, error) {
	return opened(openFile(path, os.O_RDWR))(at)
}

func opened(f *os.File, err error) func(at int64) (file, error) {
	return func(at int64) (file, error) {
		if err != nil {
			return nil, err
		}
		return &systemFile{File: f, end: at}, nil
	}
}

func (system) read(path string) ([]byte, error) {
	f, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}

func (system) truncate(path string, size int64) error { return os.Truncate(path, size) }

func (system) rename(from, to string) error { return os.Rename(from, to) }

func (system) remove(path string) error { return os.Remove(path) }

func (system) syncDir(path string) error {
	d, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// systemFile is a file of the operating system.
type systemFile struct {
	*os.File
	end int64 // behind the last write
}

func (f *systemFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.end)
	f.end += int64(n)
	return n, err
}

func (f *systemFile) allocate(offset, n int64) { allocate(f.File, offset, n) }

func (f *systemFile) sync() error { return syncData(f.File) }
