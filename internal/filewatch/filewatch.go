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
	"context"
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
	Err   error // of reading the file
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
	events := w.events(ctx)
	every := time.NewTicker(orDefault(w.Interval, 5*time.Second))
	defer every.Stop()
	settled := time.NewTimer(0)
	defer settled.Stop()

	reported := Content{Bytes: w.Seen}
	var pending *Content // of the last read, not reported yet
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-events:
			if !open {
				events = nil
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
		case found.same(reported):
			pending = nil
		case pending != nil && found.same(*pending):
			reported, pending = found, nil
			changed(found)
		default:
			pending = &found
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

// events returns a channel that gets a value after each change in the file's directory. It
// is closed when the event source ends.
func (w *Watcher) events(ctx context.Context) <-chan struct{} {
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

// forward merges any number of events into one value.
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
		case err, open := <-notify.Errors: // events were lost, so read
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
