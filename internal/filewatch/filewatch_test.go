package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// never is longer than a test runs: only the other way of finding changes works.
const never = time.Hour

// watch runs a watcher until the test ends and returns what it tells.
func watch(t *testing.T, w *Watcher) <-chan Content {
	t.Helper()
	told := make(chan Content, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, func(c Content) { told <- c })
	}()
	t.Cleanup(func() { stop(); <-ended })
	return told
}

func newWatcher(path string, every time.Duration) *Watcher {
	return &Watcher{Path: path, Read: func() ([]byte, error) { return os.ReadFile(path) },
		Seen: []byte("one"), Every: every, Settle: 20 * time.Millisecond}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, told <-chan Content, content string) {
	t.Helper()
	select {
	case c := <-told:
		if c.Err != nil || string(c.Bytes) != content {
			t.Fatalf("told %q, %v; want %q", c.Bytes, c.Err, content)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing told, want %q", content)
	}
}

// started makes sure that the watcher looks: what it tells first is told.
func started(t *testing.T, path string, told <-chan Content) {
	t.Helper()
	write(t, path, "first")
	want(t, told, "first")
}

func TestRewriteAndRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, path, "one")
	told := watch(t, newWatcher(path, never))
	started(t, path, told)
	write(t, path, "two")
	want(t, told, "two")
	write(t, path+".new", "three")
	rename(t, path+".new", path)
	want(t, told, "three")
}

// TestKubernetes swaps the link ..data, as a mounted ConfigMap does.
func TestKubernetes(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	version := func(name, content string) {
		t.Helper()
		if err := os.Mkdir(in(name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(in(name), "weir.yaml"), content)
		symlink(t, name, in("..data_tmp"))
		rename(t, in("..data_tmp"), in("..data"))
	}
	version("..2026_1", "one")
	symlink(t, filepath.Join("..data", "weir.yaml"), in("weir.yaml"))
	told := watch(t, newWatcher(in("weir.yaml"), never))
	version("..2026_2", "two")
	want(t, told, "two")
	if err := os.RemoveAll(in("..2026_1")); err != nil {
		t.Fatal(err)
	}
	version("..2026_3", "three")
	want(t, told, "three")
}

// TestWithoutNotes: behind a link into another directory only looking helps.
func TestWithoutNotes(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, elsewhere, "one")
	path := filepath.Join(t.TempDir(), "weir.yaml")
	symlink(t, elsewhere, path)
	told := watch(t, newWatcher(path, 30*time.Millisecond))
	write(t, elsewhere, "two")
	want(t, told, "two")
}

// TestGoneAndBack: a file that cannot be read is told once, its return too, and
// the content that was known before does not count as known.
func TestGoneAndBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, path, "one")
	told := watch(t, newWatcher(path, 10*time.Millisecond))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c := <-told; !os.IsNotExist(c.Err) {
		t.Fatalf("told %q, %v; want that it is gone", c.Bytes, c.Err)
	}
	write(t, path, "one")
	want(t, told, "one")
}

// TestHalves: content that does not stay is not told, and a content that returns
// to what is known is no change.
func TestHalves(t *testing.T) {
	contents := []string{"one", "o", "on", "one", "t", "tw", "two", "two"}
	var reads atomic.Int64
	w := &Watcher{Path: filepath.Join(t.TempDir(), "weir.yaml"), Seen: []byte("one"),
		Every: never, Settle: time.Millisecond,
		Read: func() ([]byte, error) {
			i := int(reads.Add(1)) - 1
			return []byte(contents[min(i, len(contents)-1)]), nil
		}}
	// Each look that finds something new asks for the next; the fourth finds what
	// is known, so that one needs a note.
	told := watch(t, w)
	deadline := time.After(20 * time.Second)
	for {
		write(t, w.Path, "note")
		select {
		case c := <-told:
			if string(c.Bytes) != "two" || reads.Load() < 8 {
				t.Errorf("told %q after %d looks, want two after 8", c.Bytes, reads.Load())
			}
			return
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatal("nothing told")
		}
	}
}

// TestNoDirectory: without notes the watcher says so, and looks.
func TestNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	w := newWatcher(filepath.Join(dir, "weir.yaml"), 10*time.Millisecond)
	warned := make(chan error, 1)
	w.Warn = func(err error) { warned <- err }
	told := watch(t, w)
	if err := <-warned; err == nil {
		t.Error("warned of nothing")
	}
	if c := <-told; !os.IsNotExist(c.Err) {
		t.Errorf("told %v, want that there is no file", c)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, w.Path, "two")
	want(t, told, "two")
}
