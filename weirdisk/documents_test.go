package weirdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	text := ""
	for _, d := range all.Documents {
		text += d.Name + "=" + d.Text + " "
	}
	return text
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
		image := t.TempDir()
		must.Do(t, os.CopyFS(image, os.DirFS(dir)))
		after := open(t, image)
		if got, want := texts(t, after), fmt.Sprintf("a=%d ", i); got != want {
			t.Errorf("after the start: got %q, want %q", got, want)
		}
		after.Close()
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
	if got := texts(t, e); got != "a=1 " {
		t.Errorf("after the failure: %q", got)
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
