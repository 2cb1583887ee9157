package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// Later is Open for a program that must start whether the store is there or not.
// It returns at once, and connects on a goroutine that tries again and again until
// it has succeeded or the store is closed. Until then the engine's calls return an
// error that wraps weir.ErrUnavailable and says why; those that come before the first
// attempt has ended wait for it.
//
// A server that is there but cannot be the store is tried again too: an operator
// may repair it. Ready tells whether the first attempt found one.
//
// hear is told of every new reason why the store cannot be asked, and of success
// with nil and what should be known of the server. It is called on the goroutine,
// which waits for it. The error wraps ErrURL.
func Later(name string, hear func(err error, warnings []string)) (*Store, error) {
	if name == "memory" {
		return Open(name)
	}
	t, o, err := prepare(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &later{target: t, options: o, hear: hear, tried: make(chan struct{}), ended: make(chan struct{})}
	why := t.failed(ErrUnreachable, "it has not answered yet", "does it run, and does it listen there?")
	l.why.Store(&why)
	go l.run(ctx)
	return &Store{Engine: l, Conn: l, Name: t.String(), Shared: true, later: l, close: cancel}, nil
}

// Ready waits until the first attempt to connect has ended, or ctx has. It returns
// what came of it, as Open does: ErrUnreachable where nothing did.
func (s *Store) Ready(ctx context.Context) error {
	if s.later == nil {
		return nil
	}
	select {
	case <-s.later.tried:
	case <-ctx.Done():
	}
	return s.Down()
}

// Down says why the store has not been found yet, or nil once it has. It does not
// ask it.
func (s *Store) Down() error {
	if s.later == nil || s.later.found.Load() != nil {
		return nil
	}
	return *s.later.why.Load()
}

// later is the engine of a store that may not be there yet.
type later struct {
	target  *target
	options rueidis.ClientOption
	hear    func(error, []string)

	found atomic.Pointer[weirredis.Engine]
	conn  atomic.Pointer[weirredis.Conn] // what found stands on
	why   atomic.Pointer[error]          // why it has not been found
	tried chan struct{}                  // closed after the first attempt, by
	once  sync.Once
	ended chan struct{} // closed when the goroutine has ended
}

var _ weir.RefundOnceEngine = (*later)(nil)

// A store that was away is found within retryMax of its return.
const (
	retryMin = 100 * time.Millisecond
	retryMax = time.Second
)

// run connects, and gives the connection back when ctx ends. It ends then, or as
// soon as an attempt that is under way has.
func (l *later) run(ctx context.Context) {
	defer close(l.ended)
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		found, err := l.try()
		if err == nil {
			<-ctx.Done()
			found.close()
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// try connects once.
func (l *later) try() (*found, error) {
	found, err := l.target.open(l.options)
	last := l.why.Load()
	if err == nil {
		l.conn.Store(&found.conn)
		l.found.Store(found.engine)
	} else {
		l.why.Store(&err)
	}
	l.once.Do(func() { close(l.tried) })
	if err == nil {
		l.hear(nil, found.warnings)
	} else if (*last).Error() != err.Error() {
		l.hear(err, nil)
	}
	return found, err
}

// engine is the store's engine, or the error of calls while there is none. While the
// first attempt to reach it is under way, calls wait for it.
func (l *later) engine(ctx context.Context) (*weirredis.Engine, error) {
	if e := l.found.Load(); e != nil {
		return e, nil
	}
	select {
	case <-l.tried:
	case <-ctx.Done():
	}
	if e := l.found.Load(); e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("%w: %w", weir.ErrUnavailable, *l.why.Load())
}

// Eval runs a script on the store, or says that it was not sent.
func (l *later) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	conn := l.conn.Load()
	if conn == nil {
		return "", weirredis.UnsentError{Err: *l.why.Load()}
	}
	return (*conn).Eval(ctx, s, keys, args)
}

func (l *later) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	e, err := l.engine(ctx)
	if err != nil {
		return weir.Decision{}, err
	}
	return e.Decide(ctx, p, k, a)
}

func (l *later) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	return l.RefundOnce(ctx, p, k, at, n, now, "")
}

func (l *later) RefundOnce(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64, id string) (int64, error) {
	e, err := l.engine(ctx)
	if err != nil {
		return 0, err
	}
	return e.RefundOnce(ctx, p, k, at, n, now, id)
}

func (l *later) Count(ctx context.Context, p *weir.Plan, k weir.Key, i int, last, now int64) (int64, error) {
	e, err := l.engine(ctx)
	if err != nil {
		return 0, err
	}
	return e.Count(ctx, p, k, i, last, now)
}

func (l *later) Reset(ctx context.Context, p *weir.Plan, k weir.Key) error {
	e, err := l.engine(ctx)
	if err != nil {
		return err
	}
	return e.Reset(ctx, p, k)
}
