package weirdisk

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	weak "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

func withFiles(f files) Option { return func(c *config) { c.files = f } }

// TestFailingDisk (D5): a failed write or sync fails the call that waits for it, later calls
// change nothing, and the engine recovers by itself. Acknowledged grants stay, also after the
// next start.
func TestFailingDisk(t *testing.T) {
	for name, fault := range map[string]func(*faulty) *atomic.Bool{
		"write": func(f *faulty) *atomic.Bool { return &f.writes },
		"sync":  func(f *faulty) *atomic.Bool { return &f.syncs },
	} {
		for _, mode := range []string{"always", "every"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, dir := newFaulty(), t.TempDir()
					e := open(t, dir, modes[mode], withFiles(f))
					l := newLimiter(t, e, weir.Limit{Name: "l", Max: 1 << 40, Window: time.Hour, By: []string{"user"}})
					acknowledged := int64(0)
					allow := func() error {
						_, err := l.Allow(ctx, weir.K("ann"))
						if err == nil {
							acknowledged++
						}
						return err
					}
					for round := range 3 {
						must.Do(t, allow())
						fault(f).Store(true)
						var first error
						must.Await(t, "a call fails", func() bool { first = allow(); return first != nil })
						if !errors.Is(first, weir.ErrOutcomeUnknown) && !errors.Is(first, weir.ErrUnavailable) {
							t.Errorf("the first failure: got %v, want ErrOutcomeUnknown or ErrUnavailable", first)
						}
						held := e.Stats().Memory.Bytes
						for range 10 {
							if err := allow(); !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), dir) && !strings.Contains(err.Error(), "no space") && !strings.Contains(err.Error(), "input/output") {
								t.Errorf("during the outage: got %v, want ErrUnavailable with the reason", err)
							}
						}
						if e.Err() == nil || e.Stats().Memory.Bytes != held {
							t.Errorf("during the outage: Err() = %v, %d bytes, want an error and %d bytes", e.Err(), e.Stats().Memory.Bytes, held)
						}
						assert.Equal(t, mustPeek(t, l, weir.K("ann"), 1).Allowed, true, "a peek during the outage")
						if round == 1 {
							f.creates.Store(true)
							time.Sleep(2 * keeperTick)
							f.creates.Store(false)
						}
						fault(f).Store(false)
						must.Await(t, "it is in service again", func() bool { return allow() == nil })
					}
					if e.Err() != nil || e.Stats().Failures < 3 {
						t.Errorf("after the outages: %v, %+v", e.Err(), e.Stats())
					}
					must.Do(t, e.Close())
					e = open(t, dir)
					l = newLimiter(t, e, weir.Limit{Name: "l", Max: 1 << 40, Window: time.Hour, By: []string{"user"}})
					if n, err := l.Count(ctx, weir.K("ann"), "l", time.Hour); err != nil || n < acknowledged || n > acknowledged+3 {
						t.Errorf("after a restart: got %d, %v, want %d and at most one more an outage", n, err, acknowledged)
					}
				})
			})
		}
	}
}

// TestSnapshotsFail (D6): while a part of a snapshot fails, calls are answered, the log grows, and the
// engine reports it. The next snapshot ends that.
func TestSnapshotsFail(t *testing.T) {
	for _, c := range []struct {
		file string
		good int64 // creations of it before the one that fails
	}{{filepath.Base(segmentPath("", 2)), 0}, {manifestName + ".new", 0}, {manifestName + ".new", 2}} {
		var good atomic.Int64
		f := &hooked{neverSynced, func(o operation, do func() error) error {
			if o.kind == stepCreate && filepath.Base(o.path) == c.file && good.Add(-1) < 0 {
				return syscall.EMFILE
			}
			return do()
		}}
		good.Store(math.MaxInt64)
		dir := t.TempDir()
		e := open(t, dir, withFiles(f))
		granted(t, e, 1)
		good.Store(c.good)
		signal(e.keeper.now)
		must.Await(t, "it is reported", func() bool { return errors.Is(e.Err(), syscall.EMFILE) })
		granted(t, e, 1)
		assert.Equal(t, e.Stats().Failures, 1, "%+v: failures", c)
		good.Store(math.MaxInt64)
		snapshotNow(t, e)
		must.Do(t, e.Err())
		granted(t, e, 1)
		must.Do(t, e.Close())
		wantLeft(t, open(t, dir), 7, c)
	}
}

// TestRepairIsNotTriedAllTheTime (D5): while the disk has room for a header and not for a
// snapshot, the engine tries once in a while.
func TestRepairIsNotTriedAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		f := &hooked{neverSynced, func(o operation, do func() error) error {
			if full.Load() && o.kind == stepWrite && !bytes.HasPrefix(o.data, []byte(magic)) {
				return syscall.ENOSPC
			}
			return do()
		}}
		const tick = 100 * time.Millisecond
		e := open(t, t.TempDir(), SyncAlways(), withFiles(f), func(c *config) { c.tick = tick })
		l := newLimiter(t, e, daily)
		for _, key := range []string{"ann", "bob", "eve"} {
			mustAllow(t, l, weir.K(key))
		}
		full.Store(true)
		began := time.Now()
		if _, err := l.Allow(ctx, weir.K("ann")); err == nil {
			t.Fatal("a write failed, and the call did not")
		}
		must.Await(t, "some attempts", func() bool { return e.Stats().Failures >= 8 })
		failures, took := e.Stats().Failures, time.Since(began)
		if most := int64(4 + took/tick); failures > most {
			t.Errorf("%d failures in %v, want at most %d", failures, took, most)
		}
		full.Store(false)
		must.Await(t, "it is in service", func() bool { return e.Err() == nil })
	})
}

// TestPowerFailureDuringARepair (D2, D4): a sync fails, and the power fails before the manifest
// names the segment that repairs. The segment that was not synced has a torn end, and the
// directory opens with it alone.
func TestPowerFailureDuringARepair(t *testing.T) {
	dir, image := t.TempDir(), t.TempDir()
	var fails, taken atomic.Bool
	f := &hooked{neverSynced, func(o operation, do func() error) error {
		switch {
		case o.kind != stepSync:
		case o.path == segmentPath(dir, 1) && fails.Swap(false):
			return syscall.EIO
		case o.path == segmentPath(dir, 2) && !taken.Load():
			if info, err := os.Stat(o.path); err == nil && info.Size() > headerSize {
				if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
					t.Error(err)
				}
				taken.Store(true)
			}
		}
		return do()
	}}
	e := open(t, dir, SyncEvery(time.Hour), withFiles(f))
	l := newLimiter(t, e, daily)
	var starts []int64
	for range 3 {
		starts = append(starts, e.log.size())
		mustAllow(t, l, weir.K("ann"))
	}
	fails.Store(true)
	e.keeper.now <- struct{}{}
	must.Await(t, "the second segment is written", taken.Load)

	first := fileBytes(t, segmentPath(image, 1))
	clear(first[starts[1]:starts[2]])
	write(t, segmentPath(image, 1), first)
	wantLeft(t, open(t, image), 9)
	_, err := os.Stat(segmentPath(image, 2))
	assert.Error(t, err, fs.ErrNotExist) // the segment of the repair
}

// TestHangingDisk: a call ends with its context, and its outcome is unknown.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		e := open(t, t.TempDir(), SyncAlways(), withFiles(f))
		l := newLimiter(t, e, daily)
		hang := make(chan struct{})
		f.hang.Store(&hang)
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if d, err := l.Allow(short, weir.K("ann")); !errors.Is(err, weir.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || d.Allowed {
			t.Errorf("got %v, %v, want ErrOutcomeUnknown and the context's error", d, err)
		}
		f.hang.Store(nil)
		close(hang)
		assert.Equal(t, mustAllow(t, l, weir.K("ann")).Remaining, 8, "left after it")
	})
}

// leave writes the directory of a process that was killed: a segment, of which the manifest
// names the header only.
func leave(t testing.TB, dir string, segment []byte, always bool) {
	t.Helper()
	h, err := readHeader(segment)
	if err != nil {
		t.Fatal(err)
	}
	write(t, segmentPath(dir, h.number), segment)
	m := manifest{Identity: h.identity, Always: always, Segments: []stable{{h.number, headerSize, h.sum()}}}
	must.Do(t, m.write(neverSynced, dir))
}

// TestDamage: Open refuses a directory with a flipped bit in any byte, with file and offset. If
// the bit is in the last frame of a killed process, Open may cut that instead. Open never
// panics, and changes no file when it refuses. After a Close it always refuses.
func TestDamage(t *testing.T) {
	needs.Time(t)
	dir := t.TempDir()
	e := open(t, dir, SyncAlways())
	l := newLimiter(t, e, daily)
	for i := range 9 {
		mustAllow(t, l, weir.K(fmt.Sprint("user", i%3)))
	}
	e.Close()
	whole := fileBytes(t, segmentPath(dir, 1))
	starts := framesOf(t, whole)
	last := starts[len(starts)-1]
	for i := range whole {
		damaged := slices.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		write(t, segmentPath(dir, 1), damaged)
		_, err := Check(dir)
		assert.Equal(t, errors.As(err, new(*FormatError)), true, "byte %d of %d, after a Close: %v is a FormatError", i, len(whole), err)
		copied := t.TempDir()
		leave(t, copied, whole, true)
		write(t, segmentPath(copied, 1), damaged)
		e, err := Open(copied, light)
		if err == nil {
			if int64(i) < last {
				t.Errorf("byte %d of %d: it opened, and the last frame begins at %d", i, len(whole), last)
			}
			end := int64(len(bytes.TrimRight(damaged, "\x00"))) // zeros at the end are free space
			if got := e.Recovery(); got.Offset != last || got.Bytes != end-last || !strings.Contains(got.String(), "acknowledged changes are lost") {
				t.Errorf("byte %d of %d: got %+v, want the last frame cut at %d", i, len(whole), got, last)
			}
			e.Close()
			continue
		}
		var format *FormatError
		n, _ := slices.BinarySearch(starts, int64(i)+1)
		want := int64(0)
		if n > 0 {
			want = starts[n-1]
		}
		if !errors.As(err, &format) || format.File != segmentPath(copied, 1) || format.Offset != want || int64(i) >= last {
			t.Errorf("byte %d of %d: got %v, want a FormatError at offset %d", i, len(whole), err, want)
		}
		if now := fileBytes(t, segmentPath(copied, 1)); !slices.Equal(now, damaged) {
			t.Errorf("byte %d: the file has changed", i)
		}
	}
}

// framesOf returns the offsets of the frames in a segment.
func framesOf(t *testing.T, segment []byte) (starts []int64) {
	t.Helper()
	h, err := readHeader(segment)
	if err != nil {
		t.Fatal(err)
	}
	s := stored{sum: h.sum(), data: segment}
	for at := int64(headerSize); at < int64(len(segment)); {
		f, ok := s.frameAt(at)
		if !ok {
			t.Fatalf("no frame at %d", at)
		}
		starts = append(starts, at)
		at += f.size()
	}
	return starts
}

// TestDamageIsFoundInOnePass: the search behind damage reads each byte about once, also if keys
// hold beginnings of frames with any length.
func TestDamageIsFoundInOnePass(t *testing.T) {
	h := header{number: 1, base: 1, identity: rand.Text()}
	whole := h.bytes()
	fake := binary.LittleEndian.AppendUint32(slices.Clone(marker), 1<<20)
	for len(whole) < 4<<20 {
		at := len(whole)
		whole = append(append(whole, make([]byte, frameSize)...), bytes.Repeat(fake, 100)...)
		seal(whole[at:], h.sum(), int64(at), int64(at))
	}
	random, from := slices.Clone(whole), 1<<20
	for i := range 64 << 10 {
		random[from+i] = byte(weak.Uint32())
	}
	for name, c := range map[string]struct {
		data []byte
		want error // nil: the end may be torn
	}{
		"random bytes":    {random, errDamaged},
		"a piece cut out": {slices.Delete(slices.Clone(whole), from, from+1000), nil}, // the frames behind are at other places
		"a lost end":      {whole[:len(whole)-1], nil},
	} {
		s := &stored{header: h, sum: h.sum(), data: c.data}
		err := new(contents).verify(s, stable{1, headerSize, h.sum()}, true)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if most := 3 * int64(len(c.data)); s.summed > most {
			t.Errorf("%s: checksums of %d bytes were made, want at most %d", name, s.summed, most)
		}
	}
}

// TestUnsyncedEndIsCut: behind the last sync, a power failure may leave later frames and not
// earlier ones. The log is cut at the first that is missing.
func TestUnsyncedEndIsCut(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, SyncEvery(time.Hour))
	l := newLimiter(t, e, daily)
	var starts []int64
	var grants []weir.Decision
	for range 6 {
		starts = append(starts, e.log.size())
		grants = append(grants, mustAllow(t, l, weir.K("ann")))
	}
	copied := t.TempDir()
	whole := fileBytes(t, segmentPath(dir, 1))
	whole = whole[:e.log.size()]
	clear(whole[starts[2]:starts[3]])
	leave(t, copied, whole, false)
	want := Cut{File: segmentPath(copied, 1), Offset: starts[2], Bytes: int64(len(whole)) - starts[2], After: grants[1].At.UTC(), Changes: 3}
	report, err := Check(copied)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, report.Cut, want, "the cut that Check reports")
	e = open(t, copied)
	if got := e.Recovery(); got != want || !strings.Contains(got.String(), "since the last sync were acknowledged") {
		t.Errorf("got %+v, want %+v", got, want)
	}
	wantLeft(t, e, 8)
}

// TestModeChangesOnFullDisk: a start that cannot write MANIFEST goes on in the mode that MANIFEST
// states. It fails if another mode would make the report of a torn end wrong.
func TestModeChangesOnFullDisk(t *testing.T) {
	for was, opensIn := range map[string][]string{"always": {"always"}, "every": {"always", "every"}} {
		for mode, option := range modes {
			t.Run(was+" "+mode, func(t *testing.T) {
				dir, f := t.TempDir(), newFaulty()
				must.Do(t, open(t, dir, modes[was]).Close())
				before := fileContents(t, dir)
				f.creates.Store(true)
				e, err := Open(dir, option, withFiles(f))
				if !slices.Contains(opensIn, mode) {
					if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "MANIFEST states sync=always") {
						t.Errorf("got %v, want ENOSPC", err)
					}
					assert.Equal(t, fmt.Sprintf("%q", fileContents(t, dir)), fmt.Sprintf("%q", before), "the files")
					return
				}
				must.Do(t, err)
				granted(t, e, 5)
				copied := t.TempDir()
				must.Do(t, os.CopyFS(copied, os.DirFS(dir))) // as a SIGKILL leaves it
				e.Close()
				b := fileBytes(t, segmentPath(copied, 1))
				b = bytes.TrimRight(b, "\x00")
				write(t, segmentPath(copied, 1), b[:len(b)-1])
				r, err := Check(copied)
				if err != nil || r.Cut.Bytes == 0 || r.Cut.Always && mode != "always" {
					t.Errorf("got %+v, %v, want a cut with Always only in that mode", r, err)
				}
			})
		}
	}
}

// TestAllocatedEndIsNoDamage: zeros that were allocated behind the log are neither damage nor
// a cut, and Close removes them.
func TestAllocatedEndIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, SyncAlways())
	granted(t, e, 1)
	b := fileBytes(t, segmentPath(dir, 1))
	b = append(b, make([]byte, 5000)...) // also where the system does not allocate
	copied := t.TempDir()
	leave(t, copied, b, true)
	again := open(t, copied)
	if d, err := newLimiter(t, again, daily).Allow(ctx, weir.K("ann")); err != nil || d.Remaining != 8 || again.Recovery() != (Cut{}) {
		t.Errorf("got %v, %v, cut %+v, want 8 left and no cut", d, err, again.Recovery())
	}
	for _, e := range []*Engine{e, again} {
		e.Close()
		fileInfo, err := os.Stat(segmentPath(e.log.dir, 1))
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, fileInfo.Size(), e.Stats().Bytes, "bytes after Close")
	}
}

// TestRefusedDirectories (D4): directories that are not ours, newer, incomplete or in use are
// refused with a reason, and stay as they are. The directories of a new file system are no reason.
func TestRefusedDirectories(t *testing.T) {
	made := func(t *testing.T, dir string) { // with a snapshot, so that segment 2 is the only one
		e := open(t, dir)
		granted(t, e, 1)
		snapshotNow(t, e)
		e.Close()
	}
	changed := func(change func(b []byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			made(t, dir)
			write(t, segmentPath(dir, 2), change(fileBytes(t, segmentPath(dir, 2))))
		}
	}
	has := func(names ...string) func(*testing.T, string) { // files, and directories with a slash
		return func(t *testing.T, dir string) {
			for _, name := range names {
				if strings.HasSuffix(name, "/") {
					must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o700))
				} else {
					write(t, filepath.Join(dir, name), []byte("A diary."))
				}
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"new file system":       {has(".snapshot/", "lost+found/"), ""},
		"foreign file":          {has("holiday.jpg"), "holiday.jpg, offset 0: is not a file of weirdisk; a store is a directory of its own, empty at first"},
		"foreign directories":   {has(".snapshot/", "ann/", "lost+found/"), "ann, offset 0: is not a file of weirdisk; a store is a directory of its own, empty at first"},
		"another database":      {has("000003.log", "CURRENT", lockName, "LOG", "MANIFEST-000001"), "MANIFEST-000001, offset 0: is not a file of weirdisk; a store is a directory of its own, empty at first"},
		"a lock file":           {has(lockName), ""},
		"a first manifest":      {has(manifestName+".new", "notes.txt"), ""},
		"short foreign segment": {has("0000000000000001.weirlog"), "0000000000000001.weirlog, offset 0: is not a file of weirdisk"},
		"foreign segment":       {changed(func(b []byte) []byte { return append([]byte("somebody"), b[8:]...) }), "0000000000000002.weirlog, offset 0: is not a file of weirdisk"},
		"newer":                 {changed(func(b []byte) []byte { b[8]++; return b }), "has a newer format than this program reads; use the newer program"},
		"older": {func(t *testing.T, dir string) {
			b := (&header{number: 1, identity: rand.Text()}).bytes()
			b[8]--
			write(t, segmentPath(dir, 1), b)
		}, "has the format of an earlier program; use an empty directory; weir store check reports whether a directory can be used"},
		"no manifest": {func(t *testing.T, dir string) {
			made(t, dir)
			os.Remove(filepath.Join(dir, manifestName))
		}, "0000000000000002.weirlog, offset 0: is there, and MANIFEST is missing; restore the directory"},
		"in use": {func(t *testing.T, dir string) { open(t, dir) }, fmt.Sprintf("is locked by process %d on host ", os.Getpid())},
		"a file": {func(t *testing.T, dir string) {
			os.Remove(dir)
			write(t, dir, nil)
		}, "not a directory; a file stands in its place; use another directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.prepare(t, dir)
			before, _ := os.ReadDir(dir)
			err := opens(dir)
			wantRefusal(t, err, c.want)
			if after, _ := os.ReadDir(dir); err != nil && len(after) > len(before)+1 {
				t.Errorf("the directory has changed: %v, was %v", after, before)
			}
		})
	}
}

// TestLoweredCap: histories beyond a cap are an error, and those that no longer count need no room.
func TestLoweredCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		e := open(t, dir)
		l := newLimiter(t, e, weir.Limit{Name: "l", Max: 1, Window: time.Minute, By: []string{"user"}})
		for i := range 100 {
			assert.Equal(t, mustAllow(t, l, weir.K(fmt.Sprint(i))).Granted, 1, "granted")
		}
		e.Close()
		for want, cap := range map[string]Option{"100 keys still count, and MaxKeys is 99; raise the cap": MaxKeys(99), "and MaxBytes is 1000; raise the cap": MaxBytes(1000)} {
			_, err := Open(dir, cap)
			assert.Error(t, err, weir.ErrFull, want, dir)
		}
		open(t, dir, MaxKeys(100)).Close()
		time.Sleep(2 * time.Minute)
		e = open(t, dir, MaxKeys(1))
		granted(t, e, 1)
		_, err := newLimiter(t, e, daily).Allow(ctx, weir.K("bob"))
		assert.Error(t, err, weir.ErrFull) // a second key
	})
}

// TestReadOnlyDirectory: the error names the directory, the reason and the next step. Root may
// write everywhere, so a child without rights runs the test then.
func TestReadOnlyDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		needs.Have(t, "a user without rights", runtime.GOOS == "linux", "run the test without the rights of root")
		runWithoutRights(t)
		return
	}
	empty, used := t.TempDir(), t.TempDir()
	must.Do(t, open(t, used).Close())
	for _, dir := range []string{empty, used} {
		must.Do(t, os.Chmod(dir, 0o500))
		t.Cleanup(func() { os.Chmod(dir, 0o700) }) // so that it can be removed
		_, err := Open(dir)
		assert.Error(t, err, fs.ErrPermission, dir, "the process must be able to write there")
	}
}

// TestErrorsOfTheSystemHaveANextStep: each names the directory too.
func TestErrorsOfTheSystemHaveANextStep(t *testing.T) {
	for _, cause := range []error{syscall.EACCES, syscall.EROFS, syscall.ENOSPC, syscall.ENOTDIR, syscall.ENOENT} {
		err := openError("/var/lib/weir", &fs.PathError{Op: "open", Path: "/var/lib/weir/LOCK", Err: cause})
		if text := err.Error(); !errors.Is(err, cause) || !strings.HasPrefix(text, "weirdisk: /var/lib/weir: ") || strings.HasSuffix(text, cause.Error()) {
			t.Errorf("got %v, want a next step", err)
		}
	}
	if _, err := Check(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), "is the path right?") {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	_, err := Check(dir)
	assert.Error(t, err, errNoStore, dir) // it is empty
}

// runWithoutRights runs the calling test in a child without the rights of root.
func runWithoutRights(t *testing.T) {
	t.Helper()
	const nobody = 65534
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v") // others may not read the path of the binary
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}

// TestGoroutinesEnd: Close ends all goroutines, also while the disk fails.
func TestGoroutinesEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, mode := range modes {
		f := newFaulty()
		e := open(t, t.TempDir(), mode, withFiles(f))
		l := newLimiter(t, e, daily)
		l.Allow(ctx, weir.K("ann"))
		f.writes.Store(true)
		l.Allow(ctx, weir.K("ann"))
		e.Close()
		e.Close()
	}
	must.Await(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// TestGroupCommit: callers that wait share batches and syncs.
func TestGroupCommit(t *testing.T) {
	e := open(t, t.TempDir(), SyncAlways())
	l := newLimiter(t, e, weir.Limit{Name: "l", Max: 1 << 40, Window: time.Hour, By: []string{"user"}})
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			for range 50 {
				if _, err := l.Allow(ctx, weir.K(fmt.Sprint("user", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if s := e.Stats(); s.Entries < 1600 || s.Batches > s.Entries/2 || s.Syncs > s.Batches {
		t.Errorf("32 callers of 50 calls: got %+v, want at most a batch for two entries, and a sync a batch", s)
	}
}
