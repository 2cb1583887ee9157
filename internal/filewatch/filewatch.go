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
	"time"
)

const (
	interval = time.Second            // between two reads
	settle   = 100 * time.Millisecond // for which content must stay to count
	share    = 50                     // the time between two reads is at least so many times that of the last one
)

// content is the result of a read.
type content struct {
	text []byte
	err  error // why the file could not be read
}

// same reports whether both reads had the same result.
func (c content) same(o content) bool {
	if c.err != nil || o.err != nil {
		return c.err != nil && o.err != nil && c.err.Error() == o.err.Error()
	}
	return bytes.Equal(c.text, o.text)
}

// Watch calls changed with every new content that read returns, or with its error, until ctx is
// done. seen is the content that is known at the start. The calls come one after the other. The same
// content or error is not reported twice in a row.
func Watch(ctx context.Context, seen []byte, read func() ([]byte, error), changed func(text []byte, err error)) {
	reported := content{text: seen}
	var pending *content // the last read, not reported yet
	for wait := interval; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		began := time.Now()
		text, err := read()
		found := content{text, err}
		wait = max(interval, share*time.Since(began))
		switch {
		case found.same(reported):
			pending = nil
		case pending != nil && found.same(*pending):
			reported, pending = found, nil
			changed(text, err)
		default:
			pending, wait = &found, settle
		}
	}
}

// ReadEnding calls read with a path, for Watch. A pipe, a device or a socket there is an
// error and is not read: reading it may never end. A missing file is left to read.
func ReadEnding(path string, read func(path string) ([]byte, error)) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a pipe, a device or a socket, which may never end; put a regular file in its place", path)
	}
	return read(path)
}
