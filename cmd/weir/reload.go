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

// reloader reloads a configuration of a server when its content changes, and at each
// SIGHUP. An invalid configuration changes nothing.
type reloader struct {
	watch  filewatch.Watcher
	reload func(filewatch.Content) error // gives it to the server, which logs the result
	mu     sync.Mutex                    // held from reading to reloading, so that the newest content stays
}

// run reloads after changes until ctx is done.
func (r *reloader) run(ctx context.Context) {
	r.watch.Run(ctx, func(c filewatch.Content) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reload(c)
	})
}

// again reads and reloads the configuration. The error is the reason why the one in
// force stays.
func (r *reloader) again() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := r.watch.Read()
	return r.reload(filewatch.Content{Bytes: text, Err: err})
}

// newReloader returns the reloader of a policy file. text is the content in force.
func newReloader(path string, text []byte, s *server.Server, log *slog.Logger) *reloader {
	return &reloader{
		watch: filewatch.Watcher{Path: path, Seen: text,
			Read: func() ([]byte, error) { return policy.ReadFile(path) },
			Warn: func(err error) { log.Warn("the policy file is polled for changes every few seconds", "why", err) }},
		reload: func(c filewatch.Content) error {
			defer debug.FreeOSMemory() // returns the memory of a large file that is invalid
			var file *policy.File
			err := c.Err
			if err == nil {
				file, err = policy.Parse(path, c.Bytes)
			}
			if err != nil {
				s.ReloadFailed(err)
				return err
			}
			return s.Reload(file, path)
		},
	}
}
