package weirdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/documenttest"
	"github.com/weirlimit/weir/internal/testkit/must"
)

func TestDocuments(t *testing.T) {
	documenttest.Run(t, func(t *testing.T) (first, second engine.Documents) {
		e := open(t, t.TempDir(), withFiles(neverSynced)) // hundreds of syncs take seconds
		t.Cleanup(func() { e.Close() })
		return e.Documents(), nil
	})
}

// texts returns the documents of an engine as "name=text".
func texts(t *testing.T, e *Engine) string {
	t.Helper()
	all, err := e.Documents().Read(context.Background(), "notes", 0)
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, d := range all.Documents {
		notes = append(notes, d.Name+"="+d.Text+" ")
	}
	slices.Sort(notes)
	return strings.Join(notes, "")
}

// textsAfterKill returns the documents that a start after SIGKILL finds in a directory in use.
func textsAfterKill(t *testing.T, dir string) string {
	t.Helper()
	image := t.TempDir()
	must.Do(t, os.CopyFS(image, os.DirFS(dir)))
	e := open(t, image)
	defer e.Close()
	return texts(t, e)
}

func writeNote(t *testing.T, e *Engine, name, text string) {
	t.Helper()
	d := engine.Document{Name: name, Text: text, Version: engine.AnyVersion}
	if _, err := e.Documents().Write(context.Background(), "notes", d); err != nil {
		t.Fatal(err)
	}
}

// TestDocumentsSurvive: a copy of the directory at any time, as after SIGKILL, has each document
// whose change was acknowledged, and none that was deleted.
func TestDocumentsSurvive(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	defer e.Close()
	for i := range 5 {
		writeNote(t, e, "a", fmt.Sprint(i))
		writeNote(t, e, "b", "deleted")
		writeNote(t, e, "b", "")
		if got, want := textsAfterKill(t, dir), fmt.Sprintf("a=%d ", i); got != want {
			t.Errorf("after the start: got %q, want %q", got, want)
		}
	}
}

// changedDocuments returns a directory whose process was killed, as after SIGKILL, the bytes of its
// documents behind each change, and the documents then. The first change makes the file.
func changedDocuments(t *testing.T) (dir string, ends []int64, states []string) {
	t.Helper()
	live := t.TempDir()
	e := open(t, live)
	defer e.Close()
	for _, change := range [][2]string{{"a", "1"}, {"b", "2"}, {"a", ""}, {"a", strings.Repeat("3", 100)}, {"b", "4"}} {
		writeNote(t, e, change[0], change[1])
		info, err := os.Stat(filepath.Join(live, documentsName))
		must.Do(t, err)
		ends, states = append(ends, info.Size()), append(states, texts(t, e))
	}
	dir = filepath.Join(t.TempDir(), "store")
	must.Do(t, os.CopyFS(dir, os.DirFS(live)))
	return dir, ends, states
}

// TestTornDocuments: a file of documents that ends anywhere behind its first change has the changes
// that are whole. The rest is reported, and the next change removes it.
func TestTornDocuments(t *testing.T) {
	dir, ends, states := changedDocuments(t)
	path := filepath.Join(dir, documentsName)
	content := fileBytes(t, path)
	for size := range int64(len(content)) + 1 {
		write(t, path, content[:size])
		e, err := Open(dir, light)
		if size < ends[0] {
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Fatalf("%d bytes: got %v, want an error that names the file", size, err)
			}
			continue
		}
		must.Do(t, err)
		last := 0
		for last+1 < len(ends) && ends[last+1] <= size {
			last++
		}
		if got := texts(t, e); got != states[last] {
			t.Errorf("%d bytes: got %.40q, want %.40q", size, got, states[last])
		}
		if got, torn := e.Recovery(), size-ends[last]; got.Bytes != torn || torn > 0 && (got.File != path || got.Offset != ends[last]) {
			t.Errorf("%d bytes: got %+v, want %d bytes cut at %d", size, got, torn, ends[last])
		}
		if size-ends[last] < 2 {
			writeNote(t, e, "c", "5")
		}
		must.Do(t, e.Close())
		if size-ends[last] < 2 {
			e = open(t, dir, light)
			if got := texts(t, e); got != states[last]+"c=5 " || e.Recovery().Bytes > 0 {
				t.Errorf("%d bytes, after a change: got %.60q and %+v", size, got, e.Recovery())
			}
			must.Do(t, e.Close())
		}
	}
}

// TestStartHardensDocuments: a start makes a change durable that the process before may not have
// synced, and cuts a torn one, so that the next start finds none.
func TestStartHardensDocuments(t *testing.T) {
	dir, ends, states := changedDocuments(t)
	path := filepath.Join(dir, documentsName)
	content := fileBytes(t, path)
	for _, size := range []int64{int64(len(content)), int64(len(content)) - 1} {
		write(t, path, content[:size])
		written, synced := "", ""
		e := open(t, dir, withFiles(&hooked{system{}, func(o operation, do func() error) error {
			if filepath.Base(o.path) == documentsName {
				switch o.kind {
				case stepWrite:
					written += string(o.data)
				case stepSync:
					synced = written
				}
			}
			return do()
		}}))
		last := len(ends) - 1
		if size < ends[last] {
			last--
		}
		// The first change has made the file, so its line was durable.
		if want := string(content[ends[0]:ends[last]]); synced != want {
			t.Errorf("%d bytes: synced %q, want %q", size, synced, want)
		}
		image := t.TempDir()
		must.Do(t, os.CopyFS(image, os.DirFS(dir)))
		must.Do(t, e.Close())
		after := open(t, image, light)
		if got := texts(t, after); got != states[last] || after.Recovery().Bytes > 0 {
			t.Errorf("%d bytes, after a start: got %q and %+v", size, got, after.Recovery())
		}
		must.Do(t, after.Close())
	}
}

// TestTornLogAndDocuments: a power failure can tear the log and the file of documents. Both ends are
// reported. That of a document does not state that changes of histories are lost.
func TestTornLogAndDocuments(t *testing.T) {
	dir, ends, _ := changedDocuments(t)
	path := filepath.Join(dir, documentsName)
	must.Do(t, os.Truncate(path, ends[len(ends)-1]-1))
	torn := fmt.Sprintf("%s has a torn end at offset %d", path, ends[len(ends)-2])
	r, err := Check(dir)
	must.Do(t, err)
	if got := r.Cut.String(); !strings.HasPrefix(got, torn) || strings.Contains(got, "all changes") {
		t.Errorf("documents: %s", got)
	}
	log := segmentPath(dir, 1)
	write(t, log, append(fileBytes(t, log)[:headerSize], 0xf7))
	if r, err = Check(dir); err != nil {
		t.Fatal(err)
	}
	if got := r.Cut.String(); r.Cut.File != log || !strings.Contains(got, "all changes after") || !strings.Contains(got, torn) {
		t.Errorf("log and documents: %s", got)
	}
}

// TestVersionsOfDocumentsSurvive: the version of a collection does not go back at a start, also if its
// last change was a deletion or the clock goes back. So no version is used twice.
func TestVersionsOfDocumentsSurvive(t *testing.T) {
	dir := t.TempDir()
	version := func(e *Engine) int64 {
		changes, err := e.Documents().Read(context.Background(), "notes", 0)
		must.Do(t, err)
		return changes.Version
	}
	e := open(t, dir)
	for _, name := range []string{"b", "a"} {
		writeNote(t, e, "a", "1")
		writeNote(t, e, "b", "2")
		writeNote(t, e, name, "")
		want := version(e)
		for range 2 { // the second file is made of the first
			must.Do(t, e.Close())
			e = open(t, dir)
			if got := version(e); got != want {
				t.Errorf("%q was deleted last: version %d, want %d", name, got, want)
			}
		}
	}
	must.Do(t, os.Remove(filepath.Join(dir, documentsName))) // so the next change makes the file
	writeNote(t, e, "b", "")
	want := version(e)
	image := t.TempDir()
	must.Do(t, os.CopyFS(image, os.DirFS(dir)))
	must.Do(t, e.Close())
	if r, err := Check(image); err != nil || r.Documents != 0 {
		t.Errorf("got %+v, %v; want no document", r, err)
	}
	e = open(t, image)
	defer e.Close()
	if got := version(e); got != want {
		t.Errorf("the file was made by the last deletion: version %d, want %d", got, want)
	}
}

// TestFlippedBitsInDocuments: a flipped bit in any byte is refused, except that the line of the last
// change may be cut.
func TestFlippedBitsInDocuments(t *testing.T) {
	dir, ends, states := changedDocuments(t)
	path := filepath.Join(dir, documentsName)
	content := fileBytes(t, path)
	last := ends[len(ends)-2]
	for i := range content {
		damaged := slices.Clone(content)
		damaged[i] ^= 1 << (i % 8)
		write(t, path, damaged)
		e, err := Open(dir, light)
		switch {
		case err != nil:
			if int64(i) >= last || !strings.Contains(err.Error(), path) {
				t.Errorf("byte %d of %d: got %v, want an error that names the file", i, len(content), err)
			}
			continue
		case int64(i) < last-1: // without its end a line is one with the next
			t.Errorf("byte %d of %d: it opened, and the last line begins at %d", i, len(content), last)
		case e.Recovery().Bytes == 0:
			t.Errorf("byte %d of %d: the loss is not reported", i, len(content))
		case int64(i) >= last && texts(t, e) != states[len(states)-2]:
			t.Errorf("byte %d of %d: got %.60q", i, len(content), texts(t, e))
		}
		write(t, path, content) // Close replaces no file without changes
		must.Do(t, e.Close())
	}
}

// TestFileOfDocumentsIsBounded: a document that changes often does not make the file grow for ever,
// and a change of one document of many does not write all of them.
func TestFileOfDocumentsIsBounded(t *testing.T) {
	for _, c := range []struct{ many, changes, bytes int }{{5000, 5000, 10}, {2, 300, 100_000}} {
		written := int64(0)
		on := &hooked{neverSynced, func(o operation, do func() error) error {
			if o.kind == stepWrite && strings.HasPrefix(filepath.Base(o.path), documentsName) {
				written += int64(len(o.data))
			}
			return do()
		}}
		dir := t.TempDir()
		e := open(t, dir, withFiles(on))
		text := strings.Repeat("x", c.bytes)
		for i := range c.many {
			writeNote(t, e, fmt.Sprint(i), text)
		}
		for range c.changes {
			writeNote(t, e, "0", text)
		}
		info, err := os.Stat(filepath.Join(dir, documentsName))
		must.Do(t, err)
		line := c.bytes + 90
		live := int64(c.many * line)
		if info.Size() > 3*live+spareDocuments {
			t.Errorf("%d documents of %d bytes take %d bytes", c.many, c.bytes, info.Size())
		}
		if changes := c.many + c.changes; written > int64(4*changes*line) {
			t.Errorf("%d changes of %d bytes wrote %d bytes", changes, c.bytes, written)
		}
		must.Do(t, e.Close())
	}
}

// TestRemovedFileOfDocuments: a change is durable also after somebody has moved the file away while
// the engine had it open.
func TestRemovedFileOfDocuments(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	defer e.Close()
	writeNote(t, e, "a", "1")
	must.Do(t, os.Remove(filepath.Join(dir, documentsName)))
	writeNote(t, e, "b", "2")
	if got := textsAfterKill(t, dir); got != "a=1 b=2 " {
		t.Errorf("after the start: %q", got)
	}
}

// TestDamagedDocuments: Open returns an error that names the file, and changes nothing.
func TestDamagedDocuments(t *testing.T) {
	whole := t.TempDir()
	e := open(t, whole)
	writeNote(t, e, "a", "text")
	must.Do(t, e.Close())
	other := t.TempDir()
	must.Do(t, open(t, other).Close())
	text, err := os.ReadFile(filepath.Join(whole, documentsName))
	must.Do(t, err)
	damage := map[string]func(dir string) error{
		"a byte": func(dir string) error {
			changed := strings.Replace(string(text), "text", "test", 1)
			return os.WriteFile(filepath.Join(dir, documentsName), []byte(changed), 0o600)
		},
		"cut": func(dir string) error {
			return os.Truncate(filepath.Join(dir, documentsName), int64(len(text)-1))
		},
		"empty":       func(dir string) error { return os.Truncate(filepath.Join(dir, documentsName), 0) },
		"no MANIFEST": func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) },
		"of another directory": func(dir string) error {
			os.RemoveAll(dir)
			if err := os.CopyFS(dir, os.DirFS(other)); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, documentsName), text, 0o600)
		},
	}
	for name, damage := range damage {
		dir := filepath.Join(t.TempDir(), "store")
		must.Do(t, os.CopyFS(dir, os.DirFS(whole)))
		must.Do(t, damage(dir))
		before := listing(dir)
		_, err := Open(dir)
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
		if after := listing(dir); after != before {
			t.Errorf("%s: the directory was %s, and is %s", name, before, after)
		}
		t.Log(err)
	}
}

// TestCheckCountsDocuments: Check counts the documents that are there.
func TestCheckCountsDocuments(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	writeNote(t, e, "a", "1")
	writeNote(t, e, "b", "2")
	writeNote(t, e, "b", "")
	must.Do(t, e.Close())
	if r, err := Check(dir); err != nil || r.Documents != 1 {
		t.Errorf("got %+v, %v; want 1 document", r, err)
	}
}

// TestDocumentsOnAFullDisk: a change that cannot be written is not made.
func TestDocumentsOnAFullDisk(t *testing.T) {
	full := false
	on := &hooked{system{}, func(o operation, do func() error) error {
		if full && o.kind == stepWrite && strings.HasPrefix(filepath.Base(o.path), documentsName) {
			do() // the system has written all of it, and reports an error all the same
			return syscall.ENOSPC
		}
		return do()
	}}
	dir := t.TempDir()
	e := open(t, dir, withFiles(on))
	writeNote(t, e, "a", "1")
	full = true
	d := engine.Document{Name: "a", Text: "2", Version: engine.AnyVersion}
	_, err := e.Documents().Write(context.Background(), "notes", d)
	if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ErrUnavailable and ENOSPC", err)
	}
	if got := texts(t, e) + textsAfterKill(t, dir); got != "a=1 a=1 " {
		t.Errorf("after the failure, in memory and on disk: %q", got)
	}
	full = false
	writeNote(t, e, "a", "3")
	must.Do(t, e.Close())
	e = open(t, dir)
	defer e.Close()
	if got := texts(t, e); got != "a=3 " {
		t.Errorf("after the start: %q", got)
	}
	must.Do(t, e.Close())
	if _, err := e.Documents().Write(context.Background(), "notes", d); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("after Close: got %v, want ErrUnavailable", err)
	}
}

// TestDocumentsThatFailToSync: the outcome of a change is unknown, and the next one is made.
func TestDocumentsThatFailToSync(t *testing.T) {
	fails := false
	dir := t.TempDir()
	e := open(t, dir, withFiles(failingSyncs(&fails)))
	writeNote(t, e, "a", "1")
	fails = true
	d := engine.Document{Name: "a", Text: "2", Version: engine.AnyVersion}
	_, err := e.Documents().Write(context.Background(), "notes", d)
	if !errors.Is(err, engine.ErrOutcomeUnknown) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want ErrOutcomeUnknown and EIO", err)
	}
	fails = false
	writeNote(t, e, "b", "3")
	must.Do(t, e.Close())
	e = open(t, dir)
	defer e.Close()
	if got := texts(t, e); got != "a=1 b=3 " {
		t.Errorf("after the start: %q", got)
	}
}

// failingSyncs are the system's files. While fails is set, syncs of the file of documents fail.
func failingSyncs(fails *bool) files {
	return &hooked{system{}, func(o operation, do func() error) error {
		if *fails && o.kind == stepSync && filepath.Base(o.path) == documentsName {
			return syscall.EIO
		}
		return do()
	}}
}

// TestDeletedDocumentOfUnknownOutcome: a document whose outcome is unknown can be deleted for good. The
// memory does not have it, and the file may.
func TestDeletedDocumentOfUnknownOutcome(t *testing.T) {
	fails := false
	dir := t.TempDir()
	e := open(t, dir, withFiles(failingSyncs(&fails)))
	defer e.Close()
	writeNote(t, e, "a", "1")
	fails = true
	d := engine.Document{Name: "b", Text: "2", Version: engine.AnyVersion}
	_, err := e.Documents().Write(context.Background(), "notes", d)
	if !errors.Is(err, engine.ErrOutcomeUnknown) {
		t.Fatalf("got %v, want ErrOutcomeUnknown", err)
	}
	fails = false
	writeNote(t, e, "b", "")
	if got := textsAfterKill(t, dir); got != "a=1 " {
		t.Errorf("after the start: %q", got)
	}
}

// TestCloseAfterFailuresOfDocuments: after a change that failed, Close leaves the documents that
// readers have seen. The next start finds no torn end.
func TestCloseAfterFailuresOfDocuments(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(o operation) error
		want error
	}{
		{"a part is written", func(o operation) error {
			if o.kind != stepWrite {
				return nil
			}
			o.on.file.Write(o.data[:len(o.data)/2])
			return syscall.ENOSPC
		}, engine.ErrUnavailable},
		{"a sync fails", func(o operation) error {
			if o.kind != stepSync {
				return nil
			}
			return syscall.EIO
		}, engine.ErrOutcomeUnknown},
	} {
		fails := false
		dir := t.TempDir()
		e := open(t, dir, withFiles(&hooked{system{}, func(o operation, do func() error) error {
			if fails && strings.HasPrefix(filepath.Base(o.path), documentsName) {
				if err := c.fail(o); err != nil {
					return err
				}
			}
			return do()
		}}))
		writeNote(t, e, "a", "1")
		fails = true
		d := engine.Document{Name: "a", Text: "2", Version: engine.AnyVersion}
		if _, err := e.Documents().Write(context.Background(), "notes", d); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		fails = false
		must.Do(t, e.Close())
		e = open(t, dir)
		if got := texts(t, e); got != "a=1 " || e.Recovery().Bytes > 0 {
			t.Errorf("%s: after the start: %q and %+v", c.name, got, e.Recovery())
		}
		must.Do(t, e.Close())
	}
}

// TestCloseOfDocumentsOnAFullDisk: Close need not replace the file, because all changes are durable.
func TestCloseOfDocumentsOnAFullDisk(t *testing.T) {
	full := false
	on := &hooked{system{}, func(o operation, do func() error) error {
		if full && o.kind == stepCreate {
			return syscall.ENOSPC
		}
		return do()
	}}
	dir := t.TempDir()
	e := open(t, dir, withFiles(on))
	writeNote(t, e, "a", "1")
	writeNote(t, e, "b", "2")
	full = true
	if err := e.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	e = open(t, dir)
	defer e.Close()
	if got := texts(t, e); got != "a=1 b=2 " {
		t.Errorf("after the start: %q", got)
	}
}

// TestCloseAwaitsDocuments: Close waits for a document that is being written. The next process may
// have the directory afterwards, and must not lose its own file to the one before.
func TestCloseAwaitsDocuments(t *testing.T) {
	writing, proceed := make(chan struct{}), make(chan struct{})
	on := &hooked{system{}, func(o operation, do func() error) error {
		if o.kind == stepWrite && strings.HasPrefix(filepath.Base(o.path), documentsName) {
			close(writing)
			<-proceed
		}
		return do()
	}}
	e := open(t, t.TempDir(), withFiles(on))
	written, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		writeNote(t, e, "a", "1")
	}()
	<-writing
	go func() {
		defer close(closed)
		e.Close()
	}()
	select {
	case <-closed:
		t.Error("Close returned while a document was written")
	case <-time.After(200 * time.Millisecond): // Close takes a few
	}
	close(proceed)
	<-written
	<-closed
}
