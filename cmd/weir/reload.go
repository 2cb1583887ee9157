package main

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/weirlimit/weir/cmd/weir/internal/server"
	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/policy"
)

// reloader reloads a configuration of a server when its content changes, and at each
// SIGHUP. An invalid configuration changes nothing.
type reloader struct {
	watch  filewatch.Watcher
	load   func(text []byte) (reload func() error, err error) // reload gives it to the server, which logs the result
	failed func(error)                                        // reports an invalid one to the server
	mu     sync.Mutex                                         // held from reading to reloading, so that the newest content stays
}

// run reloads after changes until ctx is done.
func (r *reloader) run(ctx context.Context) {
	r.watch.Run(ctx, func(c filewatch.Content) {
		r.reload(func() ([]byte, error) { return c.Bytes, c.Err })
	})
}

// again reads and reloads the configuration. The error is the reason why the one in
// force stays.
func (r *reloader) again() error { return r.reload(r.watch.Read) }

func (r *reloader) reload(read func() ([]byte, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer debug.FreeOSMemory() // returns the memory of a large file that is invalid
	var reload func() error
	text, err := read()
	if err == nil {
		reload, err = r.load(text)
	}
	if err != nil {
		r.failed(err)
		return err
	}
	return reload()
}

// newReloader returns the reloader of a policy file. text is the content in force.
func newReloader(path string, text []byte, s *server.Server, log *slog.Logger) *reloader {
	return &reloader{
		watch: filewatch.Watcher{Path: path, Seen: text, Warn: polled(log, "policy file"),
			Read: func() ([]byte, error) { return policy.ReadFile(path) }},
		load: func(text []byte) (func() error, error) {
			file, err := policy.Parse(path, text)
			return func() error { return s.Reload(file) }, err
		},
		failed: s.ReloadFailed,
	}
}

// polled returns a function that logs why changes are only found by polling.
func polled(log *slog.Logger, file string) func(error) {
	return func(err error) { log.Warn("the "+file+" is polled for changes every few seconds", "why", err) }
}
