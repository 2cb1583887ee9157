package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirredis"
)

// OpenInBackground is Open for a program that must start without waiting for its store. It
// returns at once and connects on a goroutine, which retries until it succeeds or the
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
// Memory and directories are opened at once, without a goroutine.
func OpenInBackground(name string, o Options, onChange func(err error, warnings []string)) (*Store, error) {
	if s, err := openHere(name, o); s != nil || err != nil {
		return s, err
	}
	t, client, err := prepare(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{target: t, options: client, onChange: onChange, tried: make(chan struct{}), ended: make(chan struct{})}
	pending := t.errorf(ErrUnreachable, "it has not answered yet", "does it run, and does it listen there?")
	b.lastErr.Store(&pending)
	go b.run(ctx)
	return &Store{Engine: b, prefix: t.prefix, Conn: b, Name: t.String(), Shared: true, background: b, close: func() error { cancel(); return nil }}, nil
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
// the error of the last write, until a write succeeds. It sends nothing.
func (s *Store) Err() error {
	if s.Disk != nil {
		return s.Disk.Err()
	}
	if s.background == nil || s.background.connected.Load() != nil {
		return nil
	}
	return *s.background.lastErr.Load()
}

// background is the engine of a store that may not be connected yet.
type background struct {
	target   *target
	options  rueidis.ClientOption
	onChange func(error, []string)

	connected atomic.Pointer[Store] // nil until then
	lastErr   atomic.Pointer[error] // of connecting
	tried     chan struct{}         // closed after the first attempt
	once      sync.Once             // closes tried
	ended     chan struct{}         // closed when the goroutine has ended
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
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		if s := b.connect(); s != nil {
			<-ctx.Done()
			s.close()
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// connect makes one attempt. It returns nil if that fails.
func (b *background) connect() *Store {
	s, err := b.target.open(b.options)
	if err != nil {
		before := b.lastErr.Swap(&err)
		b.once.Do(func() { close(b.tried) })
		if (*before).Error() != err.Error() {
			b.onChange(err, nil)
		}
		return nil
	}
	b.connected.Store(s)
	b.once.Do(func() { close(b.tried) })
	b.onChange(nil, s.Warnings)
	return s
}

// engine returns the engine of the store, or the last error. It waits for the first
// attempt.
func (b *background) engine(ctx context.Context) (engine.Engine, error) {
	s := b.connected.Load()
	if s == nil {
		select {
		case <-b.tried:
		case <-ctx.Done():
		}
		s = b.connected.Load()
	}
	if s == nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrUnavailable, *b.lastErr.Load())
	}
	return s.Engine, nil
}

// Eval runs a script on the store, or reports that it was not sent.
func (b *background) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	connected := b.connected.Load()
	if connected == nil {
		return "", weirredis.UnsentError{Err: *b.lastErr.Load()}
	}
	return connected.Conn.Eval(ctx, s, keys, args)
}

// Do decides calls on the store, or sets their errors.
func (b *background) Do(ctx context.Context, calls []engine.Call) {
	e, err := b.engine(ctx)
	if err == nil {
		e.Do(ctx, calls)
		return
	}
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			c.Fail(err)
		}
	}
}
