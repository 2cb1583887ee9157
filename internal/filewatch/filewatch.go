// Package filewatch reports when the content of a file has changed: written in place,
// replaced by a renamed file, or behind a symbolic link that was replaced, as Kubernetes
// does.
//
// Events of the operating system for the file's directory start a read; only its result
// counts. A read every few seconds finds changes without an event: on network file
// systems, behind links into other directories, and after the directory was replaced.
//
// Trade-off: a file that is written in place is incomplete for a while. Content counts
// after two equal reads, Settle apart, so a change is reported that much later. A program
// that writes with longer pauses must rename a complete file into place.
package filewatch

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watcher watches one file.
type Watcher struct {
	Path     string
	Read     func() ([]byte, error) // reads the relevant part of the file
	Seen     []byte                 // the content that is known at the start
	Interval time.Duration          // between reads without an event; default 5s
	Settle   time.Duration          // least time that content must stay to count; default 100ms

	Warn func(error) // gets errors of the event source, after which only Interval finds changes; may be nil
}

// Content is the result of a read.
type Content struct {
	Bytes []byte
	Err   error // why the file could not be read
}

// same reports whether both reads had the same result.
func (c Content) same(o Content) bool {
	if c.Err != nil || o.Err != nil {
		return c.Err != nil && o.Err != nil && c.Err.Error() == o.Err.Error()
	}
	return bytes.Equal(c.Bytes, o.Bytes)
}

// Run calls changed with every new content of the file, or with the error of reading it,
// until ctx is done. The calls come from Run's goroutine, one after the other. The same
// content or error is not reported twice in a row.
func (w *Watcher) Run(ctx context.Context, changed func(Content)) {
	var events <-chan fsnotify.Event // open until Close, as losses is
	var losses <-chan error          // lost events
	if source := w.source(); source != nil {
		defer source.Close()
		events, losses = source.Events, source.Errors
	}
	every := time.NewTicker(cmp.Or(w.Interval, 5*time.Second))
	defer every.Stop()
	settle := cmp.Or(w.Settle, 100*time.Millisecond)
	settled := time.NewTimer(0)
	defer settled.Stop()

	reported := Content{Bytes: w.Seen}
	var pending *Content // the last read, not reported yet
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			settled.Reset(settle)
			continue
		case err := <-losses:
			w.warn(err)
			settled.Reset(settle)
			continue
		case <-every.C:
		case <-settled.C:
		}
		bytes, err := w.Read()
		found := Content{bytes, err}
		switch {
		case found.same(reported):
			pending = nil
		case pending != nil && found.same(*pending):
			reported, pending = found, nil
			changed(found)
		default:
			pending = &found
			settled.Reset(settle)
		}
	}
}

// ReadEnding calls read with a path, for Watcher.Read. A pipe, a device or a socket there is an
// error and is not read: reading it may never end. A missing file is left to read.
func ReadEnding(path string, read func(path string) ([]byte, error)) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a pipe, a device or a socket, which may never end; put a regular file in its place", path)
	}
	return read(path)
}

// source returns the source of events of the file's directory, or nil if there is none.
func (w *Watcher) source() *fsnotify.Watcher {
	source, err := fsnotify.NewWatcher()
	if err == nil {
		if err = source.Add(filepath.Dir(w.Path)); err == nil {
			return source
		}
		source.Close()
	}
	w.warn(err)
	return nil
}

func (w *Watcher) warn(err error) {
	if w.Warn != nil {
		w.Warn(err)
	}
}
