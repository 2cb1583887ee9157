package weirdisk

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
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
	// region creates a file of n bytes, for which the disk has room, and maps it into memory.
	// It returns nil if that is not possible here.
	region(path string, n int) region
}

// region is a file in memory. The operating system has stored bytes at once, so they survive a
// SIGKILL.
type region interface {
	bytes() []byte
	// store copies b to an offset. It reports false if the disk does not provide a page.
	store(at int, b []byte) bool
	// touch writes zeros to some bytes of n from an offset on. So the system prepares their
	// pages, which may take as long as its disk does, and store finds them.
	touch(at, n int)
	io.Closer
}

// file is an open segment.
type file interface {
	io.Writer
	io.Closer
	// allocate extends the file with zeros, so that a sync of writes there need not make its
	// size durable. It may do nothing. The next write goes where the last one ended.
	allocate(offset, n int64)
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

func (system) region(path string, n int) region {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil
	}
	defer f.Close() // the mapping stays
	if allocate(f, 0, int64(n)) {
		if b := mapped(f, 0, int64(n)); b != nil {
			return systemRegion(b)
		}
	}
	os.Remove(path)
	return nil
}

// systemRegion is memory of the operating system.
type systemRegion []byte

func (r systemRegion) bytes() []byte { return r }

func (r systemRegion) store(at int, b []byte) (stored bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { recover() }() // a fault: the disk does not provide the page
	copy(r[at:], b)
	return true
}

func (r systemRegion) touch(at, n int) {
	for i := at; i < at+n; i += os.Getpagesize() {
		r.store(i, []byte{0})
	}
}

func (r systemRegion) Close() error {
	unmap(r)
	return nil
}

// identityName is the file with the random name of the directory.
const identityName = "IDENTITY"

// readIdentity returns the name of the directory, and gives it one if it has none. A power
// failure may leave the file empty: nothing has used the name then.
func readIdentity(f files, dir string) (string, error) {
	path := filepath.Join(dir, identityName)
	b, err := f.read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if name := strings.Trim(string(b), "\x00\n"); len(name) == len(rand.Text()) {
		return name, nil
	}
	name := rand.Text()
	file, err := f.create(path)
	if err != nil {
		return "", err
	}
	_, err = file.Write([]byte(name + "\n"))
	if err == nil {
		err = file.sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	return name, f.syncDir(dir)
}
