package weirdisk

import (
	"errors"
	"io"
	"math"
	"os"
)

// files is the part of a file system that the log needs. Tests inject faults here.
type files interface {
	// open opens a file for writing from an offset on. With create it makes the file, or
	// empties an existing one.
	open(path string, create bool, at int64) (file, error)
	rename(from, to string) error
	remove(path string) error
	// syncDir makes created, renamed and removed names durable.
	syncDir(path string) error
}

// file is a file that is open for writing.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
	// allocate extends the file with zeros, so that a sync of writes there need not make a new
	// size durable. It may do nothing. The next write still goes where the last one ended.
	allocate(offset, n int64)
	// sync returns once everything written is on stable storage.
	sync() error
}

// system is the files of the operating system. It follows no symbolic link to a file.
type system struct{}

func openFile(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|noFollow, 0o600)
}

func (system) open(path string, create bool, at int64) (file, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	f, err := openFile(path, flags)
	if err != nil {
		return nil, err
	}
	_, err = f.Seek(at, io.SeekStart)
	return systemFile{f}, err
}

func (system) rename(from, to string) error { return os.Rename(from, to) }

func (system) remove(path string) error { return os.Remove(path) }

func (system) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// systemFile is a file of the operating system.
type systemFile struct{ *os.File }

// newFile returns a new file with b in it. Its content is durable, but not its name (syncDir).
// After an error there is no file.
func newFile(on files, path string, b []byte) (file, error) {
	f, err := on.open(path, true, 0)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(b); err == nil {
		err = f.sync()
	}
	if err != nil {
		f.Close()
		on.remove(path)
	}
	return f, err
}

// readFile returns the content of a file of the operating system. A file with more than most bytes
// is an error, before any memory is made for it.
func readFile(path string, most int64) ([]byte, error) {
	f, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if most = min(most, math.MaxInt); info.Size() > most {
		return nil, &FormatError{path, most, errLong}
	}
	b := make([]byte, info.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}
