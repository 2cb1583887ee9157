package store

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// OpenInBackground is Open for a program that must start without waiting for its store. It
// returns immediately and connects on a goroutine, which retries until it succeeds or the
// store is closed. Until then the engine's calls return an error that wraps
// engine.ErrUnavailable and the last error. Calls before the end of the first attempt wait
// for it.
//
// A server that is unfit is tried again as well: an operator may repair it. Ready returns
// the result of the first attempt.
//
// onChange is called with every new error of the connection, and on success with nil and
// the warnings about the server. It runs on the goroutine, which waits for it. The error
// of OpenInBackground wraps ErrURL.
//
// Memory and directories are opened immediately, without a goroutine.
func OpenInBackground(name string, o Options, onChange func(err error, warnings []string)) (*Store, error) {
	l, err := parse(name)
	if err != nil {
		return nil, err
	}
	return l.open(o, onChange)
}

// open begins to connect to a server.
func (t *target) open(_ Options, onChange func(error, []string)) (*Store, error) {
	client, err := t.options(os.Getenv)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{target: t, options: client, onChange: onChange, tried: make(chan struct{}), ended: make(chan struct{})}
	b.last.Store(&attempt{err: t.errorf(ErrUnreachable, "it has not answered yet", "does it run, and does it listen there?")})
	go b.run(ctx)
	return &Store{Engine: b, Name: t.String(), Shared: true, background: b, close: func() error { cancel(); return nil }}, nil
}

// Ready waits until the first attempt to connect or ctx has ended. It returns the error of
// the attempt as Open does; ErrUnreachable if the attempt has not ended.
func (s *Store) Ready(ctx context.Context) error {
	if s.background == nil {
		return nil
	}
	select {
	case <-s.background.tried:
	case <-ctx.Done():
	}
	return s.Err()
}

// Err returns the last error of connecting, or nil once connected. Of a directory it is
// the error of the last write or snapshot, until one succeeds, or that it was moved. It sends
// nothing.
func (s *Store) Err() error {
	if s.Disk != nil {
		return s.Disk.Err()
	}
	if s.background == nil {
		return nil
	}
	return s.background.last.Load().err
}

// background is the engine of a store that may not be connected yet.
type background struct {
	target   *target
	options  rueidis.ClientOption
	onChange func(error, []string)

	last  atomic.Pointer[attempt]
	tried chan struct{} // closed after the first attempt
	ended chan struct{} // closed when the goroutine has ended
}

// attempt is the result of an attempt to connect.
type attempt struct {
	engine   engine.Engine // nil after an error, like conn
	conn     *rueidisconn.Conn
	warnings []string // about the server, for operators
	err      error
}

// The pause between two attempts doubles from retryMin up to retryMax.
const (
	retryMin = 100 * time.Millisecond
	retryMax = time.Second
)

// run connects, and closes the connection when ctx ends. An attempt in progress is
// finished first.
func (b *background) run(ctx context.Context) {
	defer close(b.ended)
	tried := sync.OnceFunc(func() { close(b.tried) })
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		a := b.target.connect(b.options)
		before := b.last.Swap(a)
		tried()
		if a.err == nil {
			b.onChange(nil, a.warnings)
			<-ctx.Done()
			a.conn.Close()
			return
		}
		if before.err.Error() != a.err.Error() {
			b.onChange(a.err, nil)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// Eval runs a script on the store, or reports that it was not sent.
func (b *background) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	last := b.last.Load()
	if last.err != nil {
		return "", weirredis.UnsentError{Err: last.err}
	}
	return last.conn.Eval(ctx, s, keys, args)
}

// Do decides calls on the store, or sets their errors. It waits for the first attempt.
func (b *background) Do(ctx context.Context, calls []engine.Call) {
	last := b.last.Load()
	if last.err != nil {
		select {
		case <-b.tried:
		case <-ctx.Done():
		}
		last = b.last.Load()
	}
	if last.err == nil {
		last.engine.Do(ctx, calls)
		return
	}
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			c.Fail(fmt.Errorf("%w: %w", engine.ErrUnavailable, last.err))
		}
	}
}
