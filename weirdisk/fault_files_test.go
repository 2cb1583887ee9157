package weirdisk

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// under returns files and puts their operations on the tape.
func (t *tape) under(to files) files { return &taped{t, to, sync.Mutex{}, t.names()} }

type taped struct {
	tape *tape
	to   files

	mu    sync.Mutex
	names map[string]int // files by the last part of their path
}

func (x *taped) create(path string) (file, error) {
	f, err := x.to.create(path)
	if err != nil {
		return nil, err
	}
	_, number := x.tape.addFile(step{kind: stepCreate, name: filepath.Base(path)})
	x.mu.Lock()
	x.names[filepath.Base(path)] = number
	x.mu.Unlock()
	return &tapedFile{x.tape, f, number, 0}, nil
}

func (x *taped) open(path string, at int64) (file, error) {
	f, err := x.to.open(path, at)
	if err != nil {
		return nil, err
	}
	return &tapedFile{x.tape, f, x.number(path), at}, nil
}

func (x *taped) number(path string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.names[filepath.Base(path)]
}

func (x *taped) read(path string) ([]byte, error) { return x.to.read(path) }

func (x *taped) truncate(path string, size int64) error {
	err := x.to.truncate(path, size)
	if err == nil {
		x.tape.add(step{kind: stepTruncate, file: x.number(path), at: size})
	}
	return err
}

func (x *taped) rename(from, to string) error {
	err := x.to.rename(from, to)
	if err == nil {
		x.tape.add(step{kind: stepRename, name: filepath.Base(from), to: filepath.Base(to)})
		x.mu.Lock()
		x.names[filepath.Base(to)] = x.names[filepath.Base(from)]
		x.mu.Unlock()
	}
	return err
}

func (x *taped) remove(path string) error {
	err := x.to.remove(path)
	if err == nil {
		x.tape.add(step{kind: stepRemove, name: filepath.Base(path)})
	}
	return err
}

func (x *taped) syncDir(path string) error {
	place := x.tape.add(step{kind: stepSyncDir})
	err := x.to.syncDir(path)
	if err == nil {
		x.tape.returned(place)
	}
	return err
}

type tapedFile struct {
	tape   *tape
	to     file
	number int
	end    int64
}

func (f *tapedFile) Write(b []byte) (int, error) {
	n, err := f.to.Write(b)
	f.tape.add(step{kind: stepWrite, file: f.number, at: f.end, data: b[:n]})
	f.end += int64(n)
	return n, err
}

func (f *tapedFile) sync() error {
	place := f.tape.add(step{kind: stepSync, file: f.number})
	err := f.to.sync()
	if err == nil {
		f.tape.returned(place)
	}
	return err
}

// lost notes that a sync has failed above the tape.
func (f *tapedFile) lost() { f.tape.add(step{kind: stepLost, file: f.number}) }

func (f *tapedFile) allocate(offset, n int64) {
	f.to.allocate(offset, n)
	f.tape.add(step{kind: stepTruncate, file: f.number, at: offset + n})
}

func (f *tapedFile) Close() error { return f.to.Close() }

// unsynced reports syncs as done and makes none: of files, or of the directory.
type unsynced struct {
	files
	ofFiles bool
}

func (x unsynced) create(path string) (file, error) { return x.wrap(x.files.create(path)) }
func (x unsynced) open(path string, at int64) (file, error) {
	return x.wrap(x.files.open(path, at))
}

func (x unsynced) wrap(f file, err error) (file, error) {
	if err != nil || !x.ofFiles {
		return f, err
	}
	return unsyncedFile{f}, nil
}

func (x unsynced) syncDir(path string) error {
	if !x.ofFiles {
		return nil
	}
	return x.files.syncDir(path)
}

type unsyncedFile struct{ file }

func (unsyncedFile) sync() error { return nil }

// neverSynced is the system's files without syncs.
var neverSynced files = unsynced{unsynced{system{}, true}, false}

// light opens a directory without syncs. It is for tests that open thousands of directories in
// which no power fails.
func light(o *options) { o.files = neverSynced }

// answerFirst reports writes as done before they are: an engine on it is wrong.
type answerFirst struct{ files }

func (x answerFirst) create(path string) (file, error) { return later(x.files.create(path)) }
func (x answerFirst) open(path string, at int64) (file, error) {
	return later(x.files.open(path, at))
}

func later(f file, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	l := &laterFile{file: f, writes: make(chan []byte, 1<<16)}
	go func() {
		for b := range l.writes {
			time.Sleep(time.Millisecond)
			f.Write(b)
		}
	}()
	return l, nil
}

// laterFile writes on a goroutine.
type laterFile struct {
	file
	writes chan []byte
}

func (f *laterFile) Write(b []byte) (int, error) {
	f.writes <- append([]byte(nil), b...)
	return len(b), nil
}

// flaky are files of which some operations fail. A failing write makes a part.
type flaky struct {
	files
	mu       sync.Mutex
	random   *rand.Rand
	failures int
}

// fails reports whether an operation fails, and a number below n.
func (x *flaky) fails(n int) (part int, fails bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.random.IntN(20) > 0 {
		return 0, false
	}
	x.failures++
	return x.random.IntN(n), true
}

func (x *flaky) create(path string) (file, error) {
	if _, fails := x.fails(1); fails {
		return nil, syscall.ENOSPC
	}
	f, err := x.files.create(path)
	return &flakyFile{f, x}, err
}

func (x *flaky) open(path string, at int64) (file, error) {
	f, err := x.files.open(path, at)
	return &flakyFile{f, x}, err
}

func (x *flaky) remove(path string) error {
	if _, fails := x.fails(1); fails {
		return syscall.EIO
	}
	return x.files.remove(path)
}

func (x *flaky) rename(from, to string) error {
	if _, fails := x.fails(1); fails {
		return syscall.EIO
	}
	return x.files.rename(from, to)
}

func (x *flaky) syncDir(path string) error {
	if _, fails := x.fails(1); fails {
		return syscall.EIO
	}
	return x.files.syncDir(path)
}

type flakyFile struct {
	file
	of *flaky
}

func (f *flakyFile) Write(b []byte) (int, error) {
	part, fails := f.of.fails(len(b))
	if !fails {
		return f.file.Write(b)
	}
	n := 0
	if part > 0 {
		n, _ = f.file.Write(b[:part])
	}
	return n, syscall.ENOSPC
}

func (f *flakyFile) sync() error {
	if _, fails := f.of.fails(1); fails {
		if on, taped := f.file.(*tapedFile); taped {
			on.lost()
		}
		return syscall.EIO
	}
	return f.file.sync()
}

// dropping are files of a disk that breaks: segment 3 cannot be created, and the sync of
// segment 2 drops its entries.
type dropping struct {
	files
	broken atomic.Bool
}

func (x *dropping) create(path string) (file, error) {
	if x.broken.Load() && filepath.Base(path) == filepath.Base(segmentPath("", 3)) {
		return nil, syscall.EIO
	}
	f, err := x.files.create(path)
	return &droppingFile{f, x, filepath.Base(path) == filepath.Base(segmentPath("", 2)), 0}, err
}

type droppingFile struct {
	file
	of    *dropping
	drops bool
	size  int
}

func (f *droppingFile) Write(b []byte) (int, error) {
	f.size += len(b)
	return f.file.Write(b)
}

func (f *droppingFile) sync() error {
	if f.drops && f.size > headerSize {
		f.file.(*tapedFile).lost()
		return syscall.EIO
	}
	return f.file.sync()
}
