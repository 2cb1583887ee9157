package main

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/policy"
)

// reloader reloads a policy file when its content changes, and at each SIGHUP. An
// invalid file changes nothing.
type reloader struct {
	path   string
	server *server.Server
	watch  filewatch.Watcher
	mu     sync.Mutex // held from reading to reloading, so that the newest file stays
}

// newReloader returns the reloader of s for a file. text is the content in force.
func newReloader(path string, text []byte, s *server.Server, log *slog.Logger) *reloader {
	return &reloader{path: path, server: s, watch: filewatch.Watcher{Path: path, Seen: text,
		Read: func() ([]byte, error) { return policy.ReadFile(path) },
		Warn: func(err error) { log.Warn("the policy file is polled for changes every few seconds", "why", err) }}}
}

// run reloads until ctx is done.
func (r *reloader) run(ctx context.Context) {
	defer onHangup(func() { r.again() })()
	r.watch.Run(ctx, func(c filewatch.Content) {
		r.reload(func() ([]byte, error) { return c.Bytes, c.Err })
	})
}

// again reads the file and reloads the server. The error is the reason why the
// policies in force stay.
func (r *reloader) again() error {
	return r.reload(func() ([]byte, error) { return policy.ReadFile(r.path) })
}

// reload gives the server the policies that read returns, all or none. The server
// logs the result.
func (r *reloader) reload(read func() ([]byte, error)) error {
	defer debug.FreeOSMemory() // returns the memory of a large file that is invalid
	r.mu.Lock()
	defer r.mu.Unlock()
	var file *policy.File
	text, err := read()
	if err == nil {
		file, err = policy.Parse(r.path, text)
	}
	if err != nil {
		r.server.ReloadFailed(err)
		return err
	}
	return r.server.Reload(file, r.path)
}
