package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/policy"
)

// storeFlag adds --store.
func storeFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "store", "memory", storeHelp)
}

// openStore opens a store, which must be reachable.
func openStore(name string) (*store.Store, error) {
	s, err := store.Open(name, store.Options{})
	return s, storeFailure(err)
}

// closeStore closes a store at the end of a command, which returns the error if it has no other.
func closeStore(s *store.Store, result *error) {
	if err := storeFailure(s.Close()); *result == nil {
		*result = err
	}
}

// storeOptions are the settings of the memory store, and for outages of a shared one.
type storeOptions struct {
	instances int
	timeout   time.Duration
	memory    size
}

// check rejects settings that do not fit the store.
func (o *storeOptions) check(name string, table settings) error {
	directory := strings.HasPrefix(name, "file:")
	switch {
	case o.instances > 1 && directory:
		return table.setting("instances").wrong("leave it out, or share a store: --store redis://host:port", "must be 1, not %d: a directory is of one weir serve", o.instances)
	case o.memory > 0 && name != "memory" && !directory:
		return table.setting("max-memory").wrong("Redis has maxmemory for that; leave out one of them", "is for --store memory and file:, not for a shared store")
	}
	return nil
}

// startTimeout bounds the time that serve waits for the first answer of the store
// before it prints that it listens. The listeners are open meanwhile.
const startTimeout = 500 * time.Millisecond

// servedStore is the store of serve. It may be unreachable, at the start or later.
type servedStore struct {
	*store.Store
	engine  engine.Engine
	outage  *fallback.Engine // engine, unless the store is in memory
	log     *slog.Logger
	serving chan struct{} // closed when serve has begun; nothing is logged before
	closed  chan struct{} // closed by Close

	outages observe.Log // at most one line in ten seconds
	logged  bool        // the current outage has been logged
}

// connectStore begins to connect to the store, and does not wait for it.
func connectStore(name string, o storeOptions, log *slog.Logger) (*servedStore, error) {
	s := &servedStore{log: log, serving: make(chan struct{}), closed: make(chan struct{}),
		outages: observe.Log{To: log, Max: 1, Period: 10 * time.Second}}
	var err error
	if s.Store, err = store.OpenInBackground(name, store.Options{MaxBytes: int64(o.memory), Progress: s.logProgress}, s.logAttempt); err != nil {
		return nil, storeFailure(err)
	}
	if s.engine = s.Engine; s.Memory == nil {
		// A policy's when-store-is-down replaces the mode.
		s.outage = fallback.New(s.Engine, fallback.Deny, fallback.Timeout(o.timeout), fallback.Instances(o.instances), fallback.OnStoreState(s.logState))
		s.engine = s.outage
	}
	return s, nil
}

// checkAtStart returns an error if the store answers within startTimeout and cannot
// be used. An unreachable store is no error: serve goes on connecting.
func (s *servedStore) checkAtStart() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return s.unusable(ctx)
}

// unusable waits for the first attempt to connect, or for ctx, and returns the
// reason why a reachable store cannot be used, or nil.
func (s *servedStore) unusable(ctx context.Context) error {
	if err := s.Ready(ctx); !errors.Is(err, store.ErrUnreachable) {
		return storeFailure(err)
	}
	return nil
}

// watch returns a context that also ends if the first attempt, which may take longer
// than startTimeout, finds an unusable store. The context's cause is the reason.
func (s *servedStore) watch(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		if err := s.unusable(ctx); err != nil {
			cancel(err)
		}
	}()
	return ctx
}

// logAttempt logs the result of an attempt to connect.
func (s *servedStore) logAttempt(err error, warnings []string) {
	select {
	case <-s.serving:
	case <-s.closed:
		return
	}
	if err != nil {
		s.log.Error("the store is unavailable; decisions follow when-store-is-down, and weir goes on connecting", "why", err)
		return
	}
	s.log.Info("the store is connected")
	for _, warning := range warnings {
		s.log.Warn(warning)
	}
}

// logProgress logs how far a long log of --store file: is read.
func (s *servedStore) logProgress(done, total int64) {
	s.log.Info("reading the store", "bytes", done, "of", total)
}

// logState logs that a connected store is down, or up again, at most once in ten
// seconds. Calls come one at a time.
func (s *servedStore) logState(cause error) {
	if s.Shared && s.Err() != nil {
		return // logAttempt logs the reason
	}
	if cause == nil {
		if s.logged {
			s.log.Info("the store is up")
		}
		return
	}
	s.logged = s.outages.Line(slog.LevelError, "the store is down; decisions follow when-store-is-down", "why", cause)
}

// Close stops connecting and closes the store. Further calls do nothing.
func (s *servedStore) Close() error {
	select {
	case <-s.closed:
		return nil
	default:
		close(s.closed)
		return storeFailure(s.Store.Close())
	}
}

// storeFailure adds the exit code to an error of a store.
func storeFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrURL):
		return usage("weir serve -h shows the values of --store", "%w", err)
	}
	return &failure{code: exitStore, err: err}
}

// noteInstances writes a note if --instances is not set and policies divide their
// limits among servers.
func noteInstances(stderr io.Writer, file *policy.File) {
	var shared []string
	for _, p := range file.Policies {
		if p.WhenStoreIsDown == fallback.Share {
			shared = append(shared, p.Name)
		}
	}
	if len(shared) > 0 {
		fmt.Fprintf(stderr, "weir: note: in an outage of the store this server grants the whole limit of %s (when-store-is-down: share);"+
			" with --instances N it grants Max/N\n", listed(shared))
	}
}
