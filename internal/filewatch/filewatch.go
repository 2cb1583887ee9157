// Package filewatch tells when the content of a file has changed, however it was
// changed: written in place, replaced by another that was renamed to its name, or
// reached through a symbolic link that was swapped, as Kubernetes does it.
//
// The operating system's notes about the file's directory say when to look; what
// counts is only what is read. A look every few seconds finds what no note told:
// network file systems, links into other directories, a directory that was
// replaced.
//
// The bargain: a file that is written in place is there in halves for a while.
// Content counts when two looks, Settle apart, found the same, so a change is
// told that much later, and who writes a file in halves with longer breaks should
// rename it into place instead.
package filewatch

import (
	"bytes"
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watcher watches one file.
type Watcher struct {
	Path   string
	Read   func() ([]byte, error) // reads the file, as much of it as matters
	Seen   []byte                 // the content that is known already
	Every  time.Duration          // between looks that nothing asked for; default 5s
	Settle time.Duration          // how long content must stay to count; default 100ms

	// Warn hears why changes may be found only at the looks between. nil = nobody.
	Warn func(error)
}

// Content is what a look found.
type Content struct {
	Bytes []byte
	Err   error // why the file could not be read
}

// same reports whether both looks found the same.
func (c Content) same(o Content) bool {
	if c.Err != nil || o.Err != nil {
		return c.Err != nil && o.Err != nil && c.Err.Error() == o.Err.Error()
	}
	return bytes.Equal(c.Bytes, o.Bytes)
}

// Run calls changed with every new content of the file, also with why it could
// not be read, until ctx is done. It calls it from its own goroutine, one call
// after the other. The same content, or error, is not told twice in a row.
func (w *Watcher) Run(ctx context.Context, changed func(Content)) {
	notes := w.notes(ctx)
	every := time.NewTicker(orDefault(w.Every, 5*time.Second))
	defer every.Stop()
	settled := time.NewTimer(0)
	defer settled.Stop()

	told := Content{Bytes: w.Seen}
	var waiting *Content // found at the last look, not told yet
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-notes:
			if !open {
				notes = nil
				continue
			}
			settled.Reset(w.settle())
			continue
		case <-every.C:
		case <-settled.C:
		}
		bytes, err := w.Read()
		found := Content{bytes, err}
		switch {
		case found.same(told):
			waiting = nil
		case waiting != nil && found.same(*waiting):
			told, waiting = found, nil
			changed(found)
		default:
			waiting = &found
			settled.Reset(w.settle())
		}
	}
}

func (w *Watcher) settle() time.Duration { return orDefault(w.Settle, 100*time.Millisecond) }

func orDefault(d, standard time.Duration) time.Duration {
	if d <= 0 {
		return standard
	}
	return d
}

// notes returns a channel that gets a value when something happened in the file's
// directory. It is closed when nothing more will be told.
func (w *Watcher) notes(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	notify, err := fsnotify.NewWatcher()
	if err == nil {
		if err = notify.Add(filepath.Dir(w.Path)); err != nil {
			notify.Close()
		}
	}
	if err != nil {
		close(out)
		w.warn(err)
		return out
	}
	go w.forward(ctx, notify, out)
	return out
}

// forward makes one value of any number of events.
func (w *Watcher) forward(ctx context.Context, notify *fsnotify.Watcher, out chan<- struct{}) {
	defer close(out)
	defer notify.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-notify.Events:
			if !open {
				return
			}
		case err, open := <-notify.Errors: // events were lost, so look
			if !open {
				return
			}
			w.warn(err)
		}
		select {
		case out <- struct{}{}:
		default:
		}
	}
}

func (w *Watcher) warn(err error) {
	if w.Warn != nil {
		w.Warn(err)
	}
}
