package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

var (
	// ErrUnreachable: the store could not be asked; it may be there later.
	ErrUnreachable = errors.New("store: unreachable")

	// ErrRefused: the server is there, and lets nobody in or is not what the URL
	// says. Waiting is of no use.
	ErrRefused = errors.New("store: refused")
)

// Store is an engine and what it stands on.
type Store struct {
	Engine weir.Engine
	Conn   weirredis.Conn // what Engine stands on; nil for memory
	Name   string         // fit to be shown: without a password
	Shared bool           // whether other processes see the same histories

	Warnings []string // what an operator should know of the server; Later tells them otherwise

	close func()
	later *later // nil unless opened by Later
}

// Spread reports whether the store spreads keys over the slots of a Cluster. It does
// not ask it; before the store is found it is taken to.
func (s *Store) Spread() bool {
	engine := s.Engine
	if s.later != nil {
		found := s.later.found.Load()
		if found == nil {
			return true
		}
		engine = found
	}
	e, ok := engine.(interface{ Spread() bool })
	return ok && e.Spread()
}

// Close gives connections back.
func (s *Store) Close() error {
	if s.close != nil {
		s.close()
	}
	return nil
}

// Names of the environment variables that hold what a URL does not.
const (
	usernameVariable = "WEIR_REDIS_USERNAME"
	passwordVariable = "WEIR_REDIS_PASSWORD"
)

// dialTimeout bounds how long Open waits for a server that does not answer.
const dialTimeout = 3 * time.Second

// Open opens the store of that name: memory, or a URL. The error wraps ErrURL if
// the name is wrong, ErrUnreachable if the server could not be asked, ErrRefused if
// it is the wrong one or the password is, and weirredis.ErrServer if it is not fit
// for limits. Nothing is written.
func Open(name string) (*Store, error) {
	if name == "memory" {
		return &Store{Engine: weir.NewMemory(), Name: name}, nil
	}
	t, o, err := prepare(name)
	if err != nil {
		return nil, err
	}
	found, err := t.open(o)
	if err != nil {
		return nil, err
	}
	return &Store{Engine: found.engine, Conn: found.conn, Name: t.String(), Shared: true, Warnings: found.warnings, close: found.close}, nil
}

// prepare reads a URL and what it refers to.
func prepare(name string) (*target, rueidis.ClientOption, error) {
	t, err := parse(name)
	if err != nil {
		return nil, rueidis.ClientOption{}, err
	}
	o, err := t.options(os.Getenv)
	return t, o, err
}

// found is a server that is fit for limits.
type found struct {
	engine   *weirredis.Engine
	conn     weirredis.Conn
	warnings []string
	close    func()
}

// open connects, and looks at what is there.
func (t *target) open(o rueidis.ClientOption) (*found, error) {
	conn, err := rueidisconn.New(o)
	if err != nil {
		return nil, t.trouble(err)
	}
	if t.kind == cluster && !conn.Clustered() {
		conn.Close()
		return nil, fmt.Errorf("%w: %s is no Cluster; write redis:// for a single server", ErrURL, t)
	}
	engine, report, err := fitEngine(conn)
	if err != nil {
		conn.Close()
		return nil, t.trouble(err)
	}
	return &found{engine, conn, report.Warnings, conn.Close}, nil
}

// fitEngine is the engine on a server that is fit for limits.
func fitEngine(conn weirredis.Conn) (*weirredis.Engine, weirredis.Report, error) {
	engine, err := weirredis.New(conn)
	if err != nil {
		return nil, weirredis.Report{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	report, err := engine.Check(ctx)
	return engine, report, err
}

// options are the client's options for the target.
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
		pool, err := t.authorities()
		if err != nil {
			return o, err
		}
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	switch t.kind {
	case single:
		o.ForceSingleClient = t.db != 0 // otherwise a node of a Cluster says so itself
	case sentinel:
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: t.master,
			TLSConfig: o.TLSConfig,
			Dialer:    o.Dialer,
		}
	}
	return o, nil
}

// authorities are those of the file ca= names; nil stands for the system's.
func (t *target) authorities() (*x509.CertPool, error) {
	if t.ca == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.ca)
	if err != nil {
		return nil, fmt.Errorf("%w: ca=: %w", ErrURL, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: ca=%s holds no certificate in PEM form", ErrURL, t.ca)
	}
	return pool, nil
}
