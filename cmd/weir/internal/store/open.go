// Package store opens a store by a name or a URL: the memory of the process, a directory,
// or Redis as a single server, behind Sentinels, or as a Cluster.
//
//	memory
//	file:/var/lib/weir[?sync=always|100ms]
//	redis://[user[:password]@]host[:port][/db]
//	redis+sentinel://[user[:password]@]host[:port],…/master-name[?db=N]
//	redis+cluster://[user[:password]@]host[:port],…
//
// rediss, rediss+sentinel and rediss+cluster use TLS; ?ca=FILE trusts the authorities of a
// file in place of the system's. To keep passwords out of command lines, a URL without
// them uses WEIR_REDIS_USERNAME and WEIR_REDIS_PASSWORD. No error and no name of a store
// contains either.
package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/weirdisk"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

var (
	// ErrUnreachable: the store did not answer; it may do so later.
	ErrUnreachable = errors.New("store: unreachable")

	// ErrRefused: the server answered, but rejects the credentials or is not of the
	// kind that the URL names; or the directory is in use, damaged or not a store.
	// Retrying does not help.
	ErrRefused = errors.New("store: refused")
)

// Store is an engine with its connection.
type Store struct {
	Engine engine.Engine
	Memory *weir.Memory     // Engine, if its histories end with the process, otherwise nil
	Disk   *weirdisk.Engine // Engine, if the name begins with file:, otherwise nil
	Name   string           // without a password, for logs and errors
	Shared bool             // other processes see the same histories

	Warnings []string // about the directory, for operators

	close      func() error
	background *background // Engine on Redis, otherwise nil
}

// Options adjust a store.
type Options struct {
	// MaxBytes bounds the memory of histories, of memory and file: alone; 0 = no bound.
	MaxBytes int64

	// Progress is called from time to time while a long log of file: is read; it may be nil.
	Progress func(done, total int64)
}

// Close closes the connections, or syncs and releases the directory.
func (s *Store) Close() error { return s.close() }

// Environment variables of the credentials that a URL does not have.
const (
	usernameVariable = "WEIR_REDIS_USERNAME"
	passwordVariable = "WEIR_REDIS_PASSWORD"
)

// dialTimeout bounds the wait for a server that does not answer.
const dialTimeout = 3 * time.Second

// Open opens the store with the given name: memory, file:DIR, or a URL. It writes nothing
// to a server. It makes a directory that does not exist. The error wraps
//   - ErrURL if the name is wrong;
//   - ErrUnreachable if the server does not answer;
//   - ErrRefused if it is the wrong server, the credentials are wrong, or the directory
//     cannot be used;
//   - weirredis.ErrServer if the server is not fit for limits.
func Open(name string, o Options) (*Store, error) {
	s, err := OpenInBackground(name, o, func(error, []string) {})
	if err != nil {
		return nil, err
	}
	if err := s.Ready(context.Background()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Describe returns the Name of the store that Open opens, without opening it. The error wraps
// ErrURL.
func Describe(name string) (string, error) {
	l, err := parse(name)
	if err != nil {
		return "", err
	}
	return l.String(), nil
}

// connect connects and checks that the server is fit for limits.
func (t *target) connect(o rueidis.ClientOption) *attempt {
	conn, err := rueidisconn.New(o)
	if err != nil {
		return &attempt{err: t.explain(err)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	clustered, err := conn.Clustered(ctx)
	if err == nil && t.kind == cluster && !clustered {
		conn.Close()
		err = fmt.Errorf("%w: %s is not a Cluster; write redis:// for a single server", ErrURL, t)
		return &attempt{err: err}
	}
	var e *weirredis.Engine
	if err == nil {
		e, err = weirredis.New(conn, weirredis.KeyPrefix(t.prefix))
	}
	var report weirredis.Report
	if err == nil {
		report, err = e.Check(ctx)
	}
	if err != nil {
		conn.Close()
		return &attempt{err: t.explain(err)}
	}
	return &attempt{engine: e, conn: conn, warnings: report.Warnings}
}

// options returns the client's options for the target.
func (t *target) options(env func(string) string) (rueidis.ClientOption, error) {
	o := rueidis.ClientOption{
		InitAddress: t.addresses,
		Username:    t.username,
		Password:    t.password,
		SelectDB:    t.db,
		Dialer:      net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second},
	}
	if o.Password == "" {
		o.Password = env(passwordVariable)
		if o.Username == "" {
			o.Username = env(usernameVariable)
		}
	}
	if t.tls {
		pool, err := t.loadAuthorities()
		if err != nil {
			return o, err
		}
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	switch t.kind {
	case single:
		o.ForceSingleClient = t.db != 0 // otherwise the client detects a node of a Cluster
	case sentinel:
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: t.master,
			TLSConfig: o.TLSConfig,
			Dialer:    o.Dialer,
		}
	}
	return o, nil
}

// loadAuthorities returns those of the file of ca=; nil stands for the system's.
func (t *target) loadAuthorities() (*x509.CertPool, error) {
	if t.ca == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.ca)
	if err != nil {
		return nil, fmt.Errorf("%w: ca=: %w", ErrURL, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: ca=%s holds no PEM certificate", ErrURL, t.ca)
	}
	return pool, nil
}

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
func OpenInBackground(
	name string, o Options, onChange func(err error, warnings []string),
) (*Store, error) {
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
	b := &background{
		target:   t,
		options:  client,
		onChange: onChange,
		tried:    make(chan struct{}),
		ended:    make(chan struct{}),
	}
	b.last.Store(&attempt{err: t.errorf(ErrUnreachable, "it has not answered yet",
		"does it run, and does it listen there?")})
	go b.run(ctx)
	stop := func() error {
		cancel()
		return nil
	}
	return &Store{Engine: b, Name: t.String(), Shared: true, background: b, close: stop}, nil
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
func (b *background) Eval(
	ctx context.Context, s *weirredis.Script, keys, args []string,
) (string, error) {
	last := b.last.Load()
	if last.err != nil {
		return "", weirredis.UnsentError{Err: last.err}
	}
	return last.conn.Eval(ctx, s, keys, args)
}

// connected returns the engine of the store, or the last error. It waits for the first attempt.
func (b *background) connected(ctx context.Context) (engine.Engine, error) {
	last := b.last.Load()
	if last.err != nil {
		select {
		case <-b.tried:
		case <-ctx.Done():
		}
		last = b.last.Load()
	}
	if last.err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrUnavailable, last.err)
	}
	return last.engine, nil
}

// Do decides calls on the store, or sets their errors. It waits for the first attempt.
func (b *background) Do(ctx context.Context, calls []engine.Call) {
	e, err := b.connected(ctx)
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

// Documents returns the documents of the store.
func (b *background) Documents() engine.Documents { return collections{b} }

// collections are the documents of a store that is connected in the background.
type collections struct{ store *background }

// Read reads documents of the store, as Do decides calls.
func (c collections) Read(
	ctx context.Context, collection string, since int64,
) (engine.Changes, error) {
	e, err := c.store.connected(ctx)
	if err != nil {
		return engine.Changes{}, err
	}
	return documents.Read(ctx, e, collection, since)
}

// Write writes a document of the store, as Do decides calls.
func (c collections) Write(
	ctx context.Context, collection string, d engine.Document,
) (engine.Document, error) {
	e, err := c.store.connected(ctx)
	if err != nil {
		return engine.Document{}, err
	}
	return documents.Write(ctx, e, collection, d)
}
