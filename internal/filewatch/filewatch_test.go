package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// watch watches a file that has the content one until the test ends. It returns a function that lets
// two seconds pass and returns the reports of them.
func watch(t *testing.T, read func() ([]byte, error)) (w *Watcher, reports func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	w = &Watcher{Seen: []byte("one"), Read: read, Changed: func(text []byte, err error) error {
		if os.IsNotExist(err) {
			text = []byte("missing")
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, string(text))
		return err
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Watch(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return w, func() []string {
		time.Sleep(2 * interval)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		reports := all
		all = nil
		return reports
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
}

// TestChangesAreReported: each once, also those behind a link of a mounted ConfigMap, of which
// Kubernetes replaces ..data, and those that Again has reported before or that undo these.
func TestChangesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		in := func(name string) string { return filepath.Join(dir, name) }
		path := in("weir.yaml")
		version := func(name, content string) {
			t.Helper()
			must.Do(t, os.Mkdir(in(name), 0o700))
			write(t, filepath.Join(in(name), "weir.yaml"), content)
			must.Do(t, os.Symlink(name, in("..data_tmp")))
			must.Do(t, os.Rename(in("..data_tmp"), in("..data")))
		}
		write(t, path, "one")
		w, reports := watch(t, func() ([]byte, error) { return os.ReadFile(path) })
		for _, c := range []struct {
			change func()
			want   []string
		}{
			{func() {}, nil},
			{func() { write(t, path, "two") }, []string{"two"}},
			{func() { write(t, path, "two") }, nil},
			{func() { write(t, path+".new", "three"); must.Do(t, os.Rename(path+".new", path)) }, []string{"three"}},
			{func() { must.Do(t, os.Remove(path)) }, []string{"missing"}},
			{func() {}, nil},
			{func() { write(t, path, "three") }, []string{"three"}},
			{func() {
				must.Do(t, os.Remove(path))
				version("..2026_1", "four")
				must.Do(t, os.Symlink(filepath.Join("..data", "weir.yaml"), path))
			}, []string{"four"}},
			{func() { version("..2026_2", "five") }, []string{"five"}},
			{func() { must.Do(t, os.RemoveAll(in("..2026_1"))) }, nil},
			{func() { version("..2026_3", "six") }, []string{"six"}},
			{func() { must.Do(t, os.RemoveAll(dir)) }, []string{"missing"}},
			{func() { must.Do(t, os.Mkdir(dir, 0o700)); write(t, path, "seven") }, []string{"seven"}},
			{func() { w.Again() }, []string{"seven"}},
			{func() { write(t, path, "eight"); w.Again() }, []string{"eight"}},
			{func() { write(t, path, "nine"); w.Again(); write(t, path, "eight") }, []string{"nine", "eight"}},
		} {
			c.change()
			if got := reports(); !slices.Equal(got, c.want) {
				t.Errorf("reported %q, want %q", got, c.want)
			}
		}
	})
}

// TestIncompleteContentIsNotReported, and content that returns to the known one is not a
// change.
func TestIncompleteContentIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contents := []string{"one", "o", "on", "one", "t", "tw", "two", "two"}
		var reads atomic.Int64
		_, reports := watch(t, func() ([]byte, error) {
			return []byte(contents[min(int(reads.Add(1)), len(contents))-1]), nil
		})
		var got []string
		for len(got) == 0 && reads.Load() < 20 {
			got = reports()
		}
		if !slices.Equal(got, []string{"two"}) || reads.Load() < 8 {
			t.Errorf("reported %q after %d reads, want two after 8", got, reads.Load())
		}
	})
}

// TestSlowReadsAreSeldom: a large directory on a slow disk does not occupy it.
func TestSlowReadsAreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		watch(t, func() ([]byte, error) {
			reads.Add(1)
			time.Sleep(100 * time.Millisecond)
			return []byte("one"), nil
		})
		time.Sleep(time.Minute)
		if n := reads.Load(); n < 10 || n > 12 {
			t.Errorf("%d reads of a tenth of a second in a minute, want one each %v", n, share*100*time.Millisecond)
		}
	})
}
