package weirdisk

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// hooked are files whose operations go through a hook. The hook makes the operation by do, or
// fails, or reports it as done.
type hooked struct {
	files
	hook func(o operation, do func() error) error
}

// operation is one use of files.
type operation struct {
	step
	path string
	on   *hookedFile // the open file, if there is one
}

func (x *hooked) open(path string, create bool, at int64) (file, error) {
	o := operation{step{kind: stepOpen}, path, &hookedFile{of: x, path: path, end: at}}
	if create {
		o.kind = stepCreate
	}
	err := x.hook(o, func() (err error) {
		o.on.file, err = x.files.open(path, create, at)
		return err
	})
	return o.on, err
}

func (x *hooked) rename(from, to string) error {
	o := operation{step{kind: stepRename, to: filepath.Base(to)}, from, nil}
	return x.hook(o, func() error { return x.files.rename(from, to) })
}

func (x *hooked) remove(path string) error {
	return x.hook(operation{step{kind: stepRemove}, path, nil}, func() error { return x.files.remove(path) })
}

func (x *hooked) syncDir(path string) error {
	return x.hook(operation{step{kind: stepSyncDir}, path, nil}, func() error { return x.files.syncDir(path) })
}

// hookedFile is an open file of hooked.
type hookedFile struct {
	file
	of     *hooked
	path   string
	end    int64 // offset behind the last write
	number int   // on the tape
}

func (f *hookedFile) Write(b []byte) (n int, err error) {
	err = f.of.hook(operation{step{kind: stepWrite, at: f.end, data: b}, f.path, f}, func() (err error) {
		n, err = f.file.Write(b)
		return err
	})
	f.end += int64(n)
	return n, err
}

func (f *hookedFile) Truncate(size int64) error {
	return f.of.hook(operation{step{kind: stepTruncate, at: size}, f.path, f}, func() error { return f.file.Truncate(size) })
}

// allocate allocates less, so that thousands of images are small.
func (f *hookedFile) allocate(offset, n int64) {
	n = min(n, 4<<10)
	f.of.hook(operation{step{kind: stepTruncate, at: offset + n}, f.path, f}, func() error { f.file.allocate(offset, n); return nil })
}

func (f *hookedFile) sync() error {
	return f.of.hook(operation{step{kind: stepSync}, f.path, f}, f.file.sync)
}

// unsynced reports syncs of a kind as done and makes none.
func unsynced(to files, kind stepKind) files {
	return &hooked{to, func(o operation, do func() error) error {
		if o.kind == kind {
			return nil
		}
		return do()
	}}
}

// neverSynced is the system's files without syncs.
var neverSynced = unsynced(unsynced(system{}, stepSync), stepSyncDir)

// light opens a directory without syncs. It is for tests that open thousands of directories in
// which no power fails.
func light(c *config) { c.files = neverSynced }

// answerFirst reports writes of frames as done before they are: an engine on it is wrong.
func answerFirst() files {
	later := make(chan func(), 1<<16)
	go func() {
		for write := range later {
			time.Sleep(time.Millisecond)
			write()
		}
	}()
	return &hooked{system{}, func(o operation, do func() error) error {
		if o.kind != stepWrite || o.at < headerSize {
			return do()
		}
		b := slices.Clone(o.data)
		later <- func() { o.on.file.Write(b) }
		return nil
	}}
}

// faulty is a file layer that fails on request.
type faulty struct {
	hooked
	writes, syncs, creates atomic.Bool                   // fail
	hang                   atomic.Pointer[chan struct{}] // a write waits for it
}

func newFaulty() *faulty {
	f := &faulty{}
	f.hooked = hooked{system{}, func(o operation, do func() error) error {
		if hang := f.hang.Load(); o.kind == stepWrite && hang != nil {
			<-*hang
		}
		switch {
		case o.kind == stepCreate && f.creates.Load():
			return syscall.ENOSPC
		case o.kind == stepSync && f.syncs.Load():
			return syscall.EIO
		case o.kind == stepWrite && f.writes.Load(): // writes a part, as on a full disk
			o.on.file.Write(o.data[:len(o.data)/2])
			return syscall.ENOSPC
		}
		return do()
	}}
	return f
}

// flaky returns files on the tape. Some of their operations fail, and failures counts them. A
// failing write writes a part, and a failing sync drops the unsynced writes.
func (t *tape) flaky(r *rand.Rand, failures *int) files {
	var mu sync.Mutex
	return &hooked{t.under(neverSynced), func(o operation, do func() error) error {
		mu.Lock()
		part, fails := 0, r.IntN(20) == 0 && o.kind != stepOpen && o.kind != stepTruncate
		if fails {
			part = r.IntN(len(o.data) + 1)
			*failures++
		}
		mu.Unlock()
		switch {
		case !fails:
			return do()
		case o.kind == stepCreate:
			return syscall.ENOSPC
		case o.kind == stepWrite:
			if part > 0 {
				o.on.file.Write(o.data[:part])
			}
			return syscall.ENOSPC
		case o.kind == stepSync:
			t.lose(o)
		}
		return syscall.EIO
	}}
}

// lose notes that a sync above the tape has failed and dropped the unsynced writes.
func (t *tape) lose(o operation) {
	t.add(step{kind: stepLost, file: o.on.file.(*hookedFile).number})
}

// under returns files and puts their operations on the tape.
func (t *tape) under(to files) files {
	var mu sync.Mutex
	names := t.names() // files by the last part of their path
	return &hooked{to, func(o operation, do func() error) error {
		s := o.step
		s.name = filepath.Base(o.path)
		if o.on != nil {
			s.file = o.on.number
		}
		if s.kind == stepSync || s.kind == stepSyncDir {
			place := t.add(s)
			err := do()
			if err == nil {
				t.returned(place)
			}
			return err
		}
		if err := do(); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if s.kind != stepOpen {
			_, s.file = t.addFile(s)
		}
		s.rename(names)
		if s.kind == stepOpen || s.kind == stepCreate {
			o.on.number = names[s.name]
		}
		return nil
	}}
}

// openEngine opens a directory in a mode, on files.
func openEngine(dir, mode string, f files, opts ...Option) (*Engine, error) {
	sync := SyncAlways()
	if mode == "100ms" {
		sync = SyncEvery(100 * time.Millisecond)
	}
	return Open(dir, append([]Option{sync, withFiles(f)}, opts...)...)
}

// snapshotsEvery makes snapshots follow n bytes, soon.
func snapshotsEvery(n int64) Option {
	return func(c *config) { c.growth, c.tick = n, time.Millisecond }
}
