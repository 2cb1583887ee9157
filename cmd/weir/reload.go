package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/policy"
)

// reloader puts the policies of a file in force whenever its content changes, and
// at SIGHUP whatever it holds. What is wrong with the file changes nothing.
type reloader struct {
	path   string
	server *server.Server
	watch  filewatch.Watcher
	hup    chan os.Signal
	mu     sync.Mutex // held from reading to putting in force, so that what was read last stays
}

// newReloader returns what reloads s from the file at path, of which src is in force.
func newReloader(path string, src []byte, s *server.Server, log *slog.Logger) *reloader {
	read := func() ([]byte, error) { return policy.ReadFile(path) }
	warn := func(err error) {
		log.Warn("changes of the policy file are found by looking every few seconds", "why", err)
	}
	r := &reloader{path: path, server: s, hup: make(chan os.Signal, 1),
		watch: filewatch.Watcher{Path: path, Read: read, Seen: src, Warn: warn}}
	signal.Notify(r.hup, syscall.SIGHUP) // from here on the signal ends nobody
	return r
}

// run reloads until ctx is done.
func (r *reloader) run(ctx context.Context) {
	defer signal.Stop(r.hup)
	changed := make(chan filewatch.Content)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.watch.Run(ctx, func(c filewatch.Content) {
			select {
			case changed <- c:
			case <-ctx.Done():
			}
		})
	}()
	for {
		select {
		case c := <-changed:
			r.reload(func() ([]byte, error) { return c.Bytes, c.Err })
		case <-r.hup:
			r.again()
		case <-ctx.Done():
			<-ended
			return
		}
	}
}

// again reads the file and puts it in force. The error says why it did not.
func (r *reloader) again() error {
	return r.reload(func() ([]byte, error) { return policy.ReadFile(r.path) })
}

// reload puts what read returns in force, whole or not at all. The server logs which.
func (r *reloader) reload(read func() ([]byte, error)) error {
	defer debug.FreeOSMemory() // a large file that was parsed in vain is not kept
	r.mu.Lock()
	defer r.mu.Unlock()
	var file *policy.File
	src, err := read()
	if err == nil {
		file, err = policy.Parse(r.path, src)
	}
	if err != nil {
		r.server.ReloadFailed(err)
		return err
	}
	return r.server.Reload(file, r.path)
}
