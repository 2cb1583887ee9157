package listen

import (
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// checkInterval is the least time between two checks of files for changes.
	checkInterval = time.Second

	// settle is how long a file must stay as it is before it is read. A file that is
	// rewritten in place is incomplete for a while, and a prefix of a secret may be valid.
	settle = 100 * time.Millisecond
)

// watched is a value that is read from files, and read again when they change. get checks
// for changes at most once in checkInterval, so no goroutine is needed. If a changed file
// cannot be read the value stays, and the next check tries again.
type watched[T any] struct {
	paths   []string
	read    func() (*T, error)
	onError func(error) // gets the error of each failed change once, and *WorldReadableError; may be nil
	private string      // path of the file that holds a secret; "" = none

	value     atomic.Pointer[T]
	nextCheck atomic.Int64 // Unix nanoseconds of the next check

	mu      sync.Mutex    // protects the following
	seen    []fs.FileInfo // the files of the current value
	pending []fs.FileInfo // the files of a change that is too new to be read
	failed  []fs.FileInfo // the files of the last change that could not be read
}

// newWatched reads the files for the first time.
func newWatched[T any](read func() (*T, error), onError func(error), private string, paths ...string) (*watched[T], error) {
	f := &watched[T]{paths: paths, read: read, onError: onError, private: private}
	if err := f.Reload(); err != nil {
		return nil, err
	}
	f.nextCheck.Store(time.Now().Add(checkInterval).UnixNano())
	return f, nil
}

// get returns the current value.
func (f *watched[T]) get() *T {
	now, next := time.Now(), f.nextCheck.Load()
	if now.UnixNano() >= next && f.nextCheck.CompareAndSwap(next, now.Add(checkInterval).UnixNano()) {
		f.check(now)
	}
	return f.value.Load()
}

// check reads the files again if they have changed since the last read, and not within settle.
func (f *watched[T]) check(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	infos, err := f.stat()
	if err == nil && same(infos, f.seen) {
		return
	}
	// The clock of a network file system may differ, so files that stay the same are settled too.
	if !same(infos, f.pending) && changedAfter(infos, now.Add(-settle)) {
		f.pending = infos
		f.nextCheck.Store(now.Add(settle).UnixNano())
		return
	}
	if err == nil {
		err = f.readLocked(infos)
	}
	if err != nil && !same(infos, f.failed) {
		f.failed = infos
		if f.onError != nil {
			f.onError(err)
		}
	}
}

// Reload reads the files now, changed or not.
func (f *watched[T]) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	infos, err := f.stat()
	if err != nil {
		return err
	}
	return f.readLocked(infos)
}

// readLocked reads the value. infos describes the files.
func (f *watched[T]) readLocked(infos []fs.FileInfo) error {
	v, err := f.read()
	if err != nil {
		return err
	}
	f.value.Store(v)
	f.seen, f.failed = infos, nil
	for i, path := range f.paths {
		if err := checkPrivate(path, infos[i]); path == f.private && err != nil && f.onError != nil {
			f.onError(err)
		}
	}
	return nil
}

// WorldReadableError reports that every user of the machine can read a file with a secret.
// It is a warning: the file is used.
type WorldReadableError struct{ Path string }

// Error names the file and the command that protects it.
func (e *WorldReadableError) Error() string {
	return "every user of this machine can read the secret in " + e.Path + "; chmod o= " + e.Path
}

// checkPrivate returns a *WorldReadableError if every user of the machine can read the
// file, or nil.
func checkPrivate(path string, info fs.FileInfo) error {
	const othersRead = 0o004
	if runtime.GOOS == "windows" || info.Mode().Perm()&othersRead == 0 { // Windows has no such mode
		return nil
	}
	return &WorldReadableError{path}
}

// stat describes the files: nil for a missing one. The error is the first.
func (f *watched[T]) stat() (infos []fs.FileInfo, first error) {
	for _, path := range f.paths {
		info, err := os.Stat(path) // follows links: Kubernetes replaces a link
		if err != nil {
			info = nil
			if first == nil {
				first = err
			}
		}
		infos = append(infos, info)
	}
	return infos, first
}

// changedAfter reports whether a file was written after an instant.
func changedAfter(infos []fs.FileInfo, at time.Time) bool {
	return slices.ContainsFunc(infos, func(info fs.FileInfo) bool { return info != nil && info.ModTime().After(at) })
}

// same reports whether files are unchanged, by identity, size and time.
func same(a, b []fs.FileInfo) bool {
	return slices.EqualFunc(a, b, func(x, y fs.FileInfo) bool {
		if x == nil || y == nil {
			return x == y
		}
		return os.SameFile(x, y) && x.Size() == y.Size() && x.ModTime().Equal(y.ModTime())
	})
}
