package weirdisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestClockSetBack (D3): the machine's clock is set back by ten hours while the engine is
// closed. Nothing is forgotten, no time runs back, and denials last no longer than their
// window. An instant of a caller does not move the clock.
func TestClockSetBack(t *testing.T) {
	dir := t.TempDir()
	var newest time.Time
	synctest.Test(t, func(t *testing.T) { // begins on 2000-01-01
		time.Sleep(10 * time.Hour)
		e := open(t, dir, SyncAlways())
		newest = granted(t, e, 10).At
		mustAllow(t, newLimiter(t, e, daily).At(newest.Add(1000*time.Hour)), weir.K("bob"))
		must.Do(t, e.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		if !time.Now().Before(newest.Add(-9 * time.Hour)) {
			t.Fatalf("the clock is %v, want it ten hours behind %v", time.Now(), newest)
		}
		e := open(t, dir, SyncAlways())
		l := newLimiter(t, e, daily)
		d, err := l.Allow(t.Context(), weir.K("ann"))
		if err != nil || d.Allowed || d.At.Before(newest) || d.At.After(newest.Add(time.Minute)) || d.RetryAfter > 24*time.Hour {
			t.Fatalf("after the restart: %v at %v, %v; want a denial for at most a day, not before %v", d, d.At, err, newest)
		}
		time.Sleep(d.RetryAfter)
		granted(t, e, 1) // after the wait
		must.Do(t, e.Close())
	})
}

// TestStartOnFullDisk: a full disk does not keep the engine from starting, and nothing is
// forgotten.
func TestStartOnFullDisk(t *testing.T) {
	disk := needs.Tmpfs(t, "1m")
	dir := filepath.Join(disk, "store")
	e := open(t, dir)
	granted(t, e, 10)
	must.Do(t, e.Close())
	filler, err := os.Create(filepath.Join(disk, "filler"))
	for block := make([]byte, 4096); err == nil; {
		_, err = filler.Write(block)
	}
	filler.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	l := newLimiter(t, open(t, dir), daily)
	if d, err := l.Allow(ctx, weir.K("ann")); err != nil && !errors.Is(err, weir.ErrUnavailable) || d.Allowed {
		t.Errorf("got %v, %v, want a denial", d, err)
	}
	assert.Equal(t, mustPeek(t, l, weir.K("ann"), 1).Allowed, false, "allowed")
}

// TestFilesArePrivate: keys of callers are readable by the owner of the process only.
func TestFilesArePrivate(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "store")
	e := open(t, dir)
	granted(t, e, 1)
	snapshotNow(t, e)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 3 {
		t.Fatalf("%v, %v, want a log, a lock and a manifest", entries, err)
	}
	for _, path := range []string{dir, filepath.Join(dir, lockName), filepath.Join(dir, manifestName), segmentPath(dir, 2)} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, info.Mode().Perm()&0o077, 0, "mode of others of %s", path)
	}
}

// TestSecondProcess (D4): a child has the directory; this process is refused with its number, and
// also once somebody has deleted the lock file.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	child, began, ended := startChild(t, childConfig{Dir: dir, Mode: "100ms"})
	select {
	case <-began:
	case <-ended:
		t.Fatal("the child ended by itself")
	}
	holder := fmt.Sprintf("process %d ", child.Process.Pid)
	_, err := Open(dir)
	assert.Error(t, err, ErrInUse, holder)
	must.Do(t, os.Remove(filepath.Join(dir, lockName)))
	for range 2 {
		_, err := Open(dir)
		assert.Error(t, err, ErrInUse, "by another process; stop it") // without a lock file
		_, err = Check(dir)
		assert.Error(t, err, ErrInUse, "by another process; stop it")
	}
}

// TestLockOfTheFileOnly: a file server can keep only the lock of the file for its other machines. It
// keeps both Open and Check away.
func TestLockOfTheFileOnly(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, open(t, dir).Close())
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	must.Do(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	_, err = Open(dir)
	assert.Error(t, err, ErrInUse)
	_, err = Check(dir)
	assert.Error(t, err, ErrInUse)
	f.Close()
	wantLeft(t, open(t, dir), 10)
}

// TestPartOfAHeader: a power failure during the creation of a segment leaves any part of its
// header. The segment holds nothing then.
func TestPartOfAHeader(t *testing.T) {
	needs.Time(t)
	dir := t.TempDir()
	e := open(t, dir, SyncAlways())
	granted(t, e, 3)
	e.Close()
	m, err := readManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Next = 2
	whole := (&header{number: 2, base: 1, identity: m.Identity}).bytes()
	for from := range len(whole) {
		for to := from + 1 + from%3; to <= len(whole); to += 3 {
			b := slices.Clone(whole)
			clear(b[from:to])
			must.Do(t, m.write(neverSynced, dir))
			write(t, segmentPath(dir, 2), b[:len(b)-from%2*from]) // some are also cut
			e := open(t, dir, light)
			wantLeft(t, e, 7, "zeros from", from, "to", to)
			e.Close()
		}
	}
}

// TestOthersCanChangeIt: a directory of another user, or one that every user can write to, is
// refused unless AnyAccess allows it. Its group may write.
func TestOthersCanChangeIt(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]string{0o700: "", 0o770: "", 0o777: "every user can write to it (mode 0777); correct owner and mode"} {
		must.Do(t, os.Chmod(dir, mode))
		wantRefusal(t, opens(dir), want)
	}
	must.Do(t, open(t, dir, AnyAccess()).Close())
	if os.Getuid() != 0 {
		return
	}
	other := t.TempDir()
	must.Do(t, os.Chown(other, 12345, -1))
	_, err := Open(other)
	assert.Error(t, err, nil, "user 12345 owns it, and this process has user 0")
}

// TestIrregularFiles: each file of a directory can be of another type, or far too long. Open and
// Check refuse it with its name. They do not wait for the other end of a pipe.
func TestIrregularFiles(t *testing.T) {
	for kind, c := range map[string]struct {
		replace func(path string) error
		want    string
	}{
		"pipe":          {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "offset 0: is not a regular file; "},
		"directory":     {func(path string) error { return os.Mkdir(path, 0o700) }, "offset 0: is not a regular file; "},
		"symbolic link": {func(path string) error { return os.Symlink(path+".old", path) }, "offset 0: is not a regular file; put a file of its own there, not a symbolic link"},
		"long": {func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 4<<40))
		}, ": is longer than any file of weirdisk; restore the directory from a backup"},
	} {
		for _, file := range []string{filepath.Base(segmentPath("", 1)), manifestName, manifestName + ".new", lockName} {
			if kind == "long" && file != manifestName && !strings.HasSuffix(file, suffix) {
				continue // is not read
			}
			t.Run(kind+" "+file, func(t *testing.T) {
				dir := t.TempDir()
				must.Do(t, open(t, dir).Close())
				path := filepath.Join(dir, file)
				if _, err := os.Stat(path); err == nil {
					must.Do(t, os.Rename(path, path+".old"))
				}
				must.Do(t, c.replace(path))
				_, checked := Check(dir)
				for _, err := range []error{opens(dir), checked} {
					if !errors.As(err, new(*FormatError)) || !strings.Contains(err.Error(), path+", offset ") || !strings.Contains(err.Error(), c.want) {
						t.Errorf("got %v, want %q", err, c.want)
					}
				}
			})
		}
	}
}

// TestLongestSegment (D5): the log goes on in another segment before one is longer than a start reads.
func TestLongestSegment(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, func(c *config) { c.tick = time.Hour })
	granted(t, e, 1)
	e.log.mu.Lock()
	e.log.end.End = maxSegment
	e.log.mu.Unlock()
	_, err := newLimiter(t, e, daily).Allow(ctx, weir.K("ann"))
	assert.Error(t, err, weir.ErrOutcomeUnknown, "is full")
	signal(e.keeper.now)
	must.Await(t, "it is in service again", func() bool { return e.Err() == nil })
	granted(t, e, 3)
	must.Do(t, e.Close())
	wantLeft(t, open(t, dir), 5)
}
