package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// never is an interval longer than a test, so that only events find changes.
const never = time.Hour

// watch runs a watcher until the test ends and returns its reports.
func watch(t *testing.T, w *Watcher) <-chan Content {
	t.Helper()
	reports := make(chan Content, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, func(c Content) { reports <- c })
	}()
	t.Cleanup(func() { stop(); <-ended })
	return reports
}

func newWatcher(path string, every time.Duration) *Watcher {
	return &Watcher{Path: path, Read: func() ([]byte, error) { return os.ReadFile(path) },
		Seen: []byte("one"), Interval: every, Settle: 20 * time.Millisecond}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	must.Do(t, os.Rename(from, to))
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	must.Do(t, os.Symlink(to, path))
}

// want waits for a report. On a busy machine a file may stay empty longer than Settle
// before it is written.
func want(t *testing.T, reports <-chan Content, content string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case c := <-reports:
			if c.Err == nil && len(c.Bytes) == 0 {
				continue
			}
			if c.Err != nil || string(c.Bytes) != content {
				t.Fatalf("reported %q, %v; want %q", c.Bytes, c.Err, content)
			}
			return
		case <-late:
			t.Fatalf("no report, want %q", content)
		}
	}
}

// awaitStart waits until the watcher reports a change.
func awaitStart(t *testing.T, path string, reports <-chan Content) {
	t.Helper()
	write(t, path, "first")
	want(t, reports, "first")
}

func TestRewriteAndRenameAreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, path, "one")
	reports := watch(t, newWatcher(path, never))
	awaitStart(t, path, reports)
	write(t, path, "two")
	want(t, reports, "two")
	write(t, path+".new", "three")
	rename(t, path+".new", path)
	want(t, reports, "three")
}

// TestKubernetesLinksAreReported: a mounted ConfigMap replaces the link ..data.
func TestKubernetesLinksAreReported(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	version := func(name, content string) {
		t.Helper()
		must.Do(t, os.Mkdir(in(name), 0o700))
		write(t, filepath.Join(in(name), "weir.yaml"), content)
		symlink(t, name, in("..data_tmp"))
		rename(t, in("..data_tmp"), in("..data"))
	}
	version("..2026_1", "one")
	symlink(t, filepath.Join("..data", "weir.yaml"), in("weir.yaml"))
	reports := watch(t, newWatcher(in("weir.yaml"), never))
	version("..2026_2", "two")
	want(t, reports, "two")
	must.Do(t, os.RemoveAll(in("..2026_1")))
	version("..2026_3", "three")
	want(t, reports, "three")
}

// TestWithoutEvents: behind a link into another directory only Interval finds changes.
func TestWithoutEvents(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, elsewhere, "one")
	path := filepath.Join(t.TempDir(), "weir.yaml")
	symlink(t, elsewhere, path)
	reports := watch(t, newWatcher(path, 30*time.Millisecond))
	write(t, elsewhere, "two")
	want(t, reports, "two")
}

// TestGoneAndBack: a missing file is reported once, and so is its return, even with the old
// content.
func TestGoneAndBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, path, "one")
	reports := watch(t, newWatcher(path, 10*time.Millisecond))
	must.Do(t, os.Remove(path))
	if c := <-reports; !os.IsNotExist(c.Err) {
		t.Fatalf("reported %q, %v; want a missing file", c.Bytes, c.Err)
	}
	write(t, path, "one")
	want(t, reports, "one")
}

// TestIncompleteContentIsNotReported, and content that returns to the known one is not a
// change.
func TestIncompleteContentIsNotReported(t *testing.T) {
	contents := []string{"one", "o", "on", "one", "t", "tw", "two", "two"}
	var reads atomic.Int64
	w := &Watcher{Path: filepath.Join(t.TempDir(), "weir.yaml"), Seen: []byte("one"),
		Interval: never, Settle: time.Millisecond,
		Read: func() ([]byte, error) {
			i := int(reads.Add(1)) - 1
			return []byte(contents[min(i, len(contents)-1)]), nil
		}}
	// Each read of new content starts the next; the fourth finds the known content, so
	// after it an event is needed.
	reports := watch(t, w)
	deadline := time.After(20 * time.Second)
	for {
		write(t, w.Path, "event")
		select {
		case c := <-reports:
			if string(c.Bytes) != "two" || reads.Load() < 8 {
				t.Errorf("reported %q after %d reads, want two after 8", c.Bytes, reads.Load())
			}
			return
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatal("no report")
		}
	}
}

// TestMissingDirectoryWarns, and Interval finds the file later.
func TestMissingDirectoryWarns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	w := newWatcher(filepath.Join(dir, "weir.yaml"), 10*time.Millisecond)
	warned := make(chan error, 1)
	w.Warn = func(err error) { warned <- err }
	reports := watch(t, w)
	if err := <-warned; err == nil {
		t.Error("warned without an error")
	}
	if c := <-reports; !os.IsNotExist(c.Err) {
		t.Errorf("reported %v, want a missing file", c)
	}
	must.Do(t, os.Mkdir(dir, 0o700))
	write(t, w.Path, "two")
	want(t, reports, "two")
}
