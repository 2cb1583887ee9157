// Package filewatch reports when the content of a file has changed: written in place,
// replaced by a renamed file, or behind a symbolic link that was replaced, as Kubernetes
// does.
//
// It reads the file every second. Events of the operating system come earlier, but not on network
// file systems, not behind links into other directories, and not after the directory was
// replaced, so they only add to the reads.
//
// Trade-off: a file that is written in place is incomplete for a while. Content counts
// after two equal reads, a tenth of a second apart. A program that writes with longer pauses must
// rename a complete file into place.
package filewatch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	interval = time.Second            // between two reads
	settle   = 100 * time.Millisecond // for which content must stay to count
	share    = 50                     // least time between two reads, in durations of the last one
)

// content is the result of a read.
type content struct {
	text []byte
	err  error // why the file could not be read
}

// same reports whether both reads had the same text, or errors of the same words.
func (c content) same(o content) bool {
	return fmt.Sprint(c.err) == fmt.Sprint(o.err) && (c.err != nil || bytes.Equal(c.text, o.text))
}

// Watcher reports the changes of a file, one after the other. Its fields are required.
type Watcher struct {
	Seen    []byte                             // the content that is known at the start
	Read    func() ([]byte, error)             // reads the file
	Changed func(text []byte, err error) error // gets each new content, or the error of Read

	mu  sync.Mutex // held from reading to the end of Changed, so that the newest content stays
	err error      // with Seen: the last report
}

// report calls Changed with a content and returns its error.
func (w *Watcher) report(c content) error {
	w.Seen, w.err = c.text, c.err
	return w.Changed(c.text, c.err)
}

// Again reads the file and reports it, even if it has not changed.
func (w *Watcher) Again() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, err := w.Read()
	return w.report(content{text, err})
}

// Watch reports every new content or error of the file until ctx is done. The same one is not
// reported twice in a row.
func (w *Watcher) Watch(ctx context.Context) {
	var pending *content // the last read, not reported yet
	for wait := interval; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		pending, wait = w.poll(pending)
	}
}

// poll reads the file once. It returns a content to report if the next read, after wait, has the
// same.
func (w *Watcher) poll(before *content) (pending *content, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := time.Now()
	text, err := w.Read()
	found := content{text, err}
	wait = max(interval, share*time.Since(began))
	switch {
	case found.same(content{w.Seen, w.err}):
	case before != nil && found.same(*before):
		w.report(found)
	default:
		return &found, settle
	}
	return nil, wait
}

// ReadEnding calls read with a path, for Watcher.Read. A pipe, a device or a socket there is an
// error and is not read: reading it may never end. A missing file is left to read.
func ReadEnding(path string, read func(path string) ([]byte, error)) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a pipe, "+
			"a device or a socket, which may never end; put a regular file in its place", path)
	}
	return read(path)
}
