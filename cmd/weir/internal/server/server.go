// Package server is weir serve: its configuration, listeners, reloads and shutdown.
// Package httpapi holds the HTTP calls, package calls observes the calls of every front.
//
// New rejects an address that other machines can reach, unless callers must send a token or a
// certificate. Proxies may send a secret that authorizes only gate calls. Operators have a
// separate listener if other machines can reach the main one.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/front/resp"
	"github.com/weirlimit/weir/cmd/weir/internal/inline"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/metrics"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirdisk"
)

// Config configures a Server. Policies, Engine, StoreName, StoreDown, Listen, Log, Version and
// Limits are required.
type Config struct {
	Policies *policy.File  // the banner shows its Name
	Inline   bool          // calls may carry policies
	Engine   engine.Engine // decides all attempts

	// These are parts of Engine, for metrics and the status. Default: none.
	Memory   *weir.Memory     // set if Engine keeps its histories only in this process
	Disk     *weirdisk.Engine // the store on disk below Engine
	Fallback *fallback.Engine // set if the store of Engine can be down

	StoreName string       // name of the store in output, without credentials
	StoreNote string       // a line of the banner; default: none
	StoreDown func() error // why the store is unavailable; it makes no call of the store

	Log     *slog.Logger
	Version string // the program's version, for /metrics
	Limits  Limits

	// Addresses are host:port or unix:/path; port 0 chooses a free one.
	Listen      string
	AdminListen string      // for operators; default: Listen if that is local, otherwise port 7072
	GRPCListen  string      // for Envoy's rate limit service; default: none
	RESPListen  string      // for Redis clients; default: none
	SocketMode  fs.FileMode // the mode of unix sockets; default 0660

	// Sockets listen already, each on one of these addresses. They stay open after the server, so
	// that connections wait for the next process. Default: the server opens all addresses.
	Sockets []net.Listener

	// Envoy has domains of Envoy's service in addition to the policies, which may then be empty.
	// The Server sets Engine and Log of EnvoyOptions.
	Envoy        *envoyconf.Config
	EnvoyOptions envoy.Options

	TLS  *listen.TLS // default: none
	Auth httpapi.Auth

	// Hosts are permitted values of the Host header on listeners that require no secret. Always
	// permitted are localhost, addresses and the name in Listen.
	Hosts listen.Names

	// Insecure permits listeners that other machines can reach without authentication.
	Insecure bool

	// GateID is the header field with the idempotency key of a gate call, which proxies must
	// set. Default: none.
	GateID string

	Tracer   observe.Tracer     // gets a span of each decision; default: none
	TopKeys  topkeys.Form       // how GET /v1/top shows keys; default: by their values
	Recorder *recorder.Recorder // records calls, and its owner closes it; default: none

	// Reread reads the policies again and calls Reload, for POST /v1/reload. Default: there is
	// nothing to read.
	Reread func() error
}

// Limits bound the resources of clients.
type Limits struct {
	ReadHeader time.Duration // to send a request's header
	Read       time.Duration // to send a whole request
	Write      time.Duration // from the end of a request's header to the end of its answer
	Idle       time.Duration // between two requests of a connection
	Prove      time.Duration // for a connection to authenticate, if that is required

	// Conns is the number of simultaneous connections of authenticated callers. Requests on
	// further connections get 503.
	Conns int

	// PerAddress bounds the connections of one client address that have not authenticated. If
	// callers need not authenticate, it bounds all connections of an address. 0 stands for a
	// quarter of Conns, at least 16, and for no bound on loopback without authentication.
	PerAddress int

	InFlight int           // simultaneous requests that wait for the store; further ones get 503
	Linger   time.Duration // time after the first 503 of /readyz in which requests are accepted
	Drain    time.Duration // time after Linger for requests in flight
}

// DefaultLimits are the limits of weir serve without flags.
var DefaultLimits = Limits{
	ReadHeader: 5 * time.Second,
	Read:       10 * time.Second,
	Write:      20 * time.Second,
	Idle:       2 * time.Minute,
	Prove:      10 * time.Second,
	Conns:      10_000,
	InFlight:   1000,
	Linger:     250 * time.Millisecond,
	Drain:      10 * time.Second,
}

// maxHeader is the largest request header, in bytes.
const maxHeader = 16 << 10

// Server serves the policies of one file on one engine. Reload replaces the file.
type Server struct {
	config   Config
	log      *slog.Logger
	policies enforce.Set
	inline   *inline.Policies // nil without Config.Inline
	observer *calls.Observer
	metrics  *metrics.Metrics
	api      *httpapi.API

	overrides *enforce.Overrides // overrides of the store
	instances instances

	started   time.Time
	sampler   calls.Sampler // counts the calls of the last 15 minutes
	durations durations     // of decisions in the last minute

	reloading    sync.Mutex              // held while policies, rules and reloads are replaced
	reloads      atomic.Pointer[reloads] // the reloads of policies; never nil
	envoyReloads atomic.Pointer[reloads] // the reloads of rules; never nil

	envoy *envoy.Service
	rules atomic.Pointer[envoyconf.Config] // Envoy's rules; nil = none

	ports       []*listener     // all listeners, main first
	main        *listener       // for programs and proxies
	admin       *listener       // for operators; nil if main serves them
	grpc        *listener       // nil without Config.GRPCListen
	redis       *listener       // nil without Config.RESPListen
	rpc         *envoy.Listener // serves grpc
	resp        *resp.Server    // serves redis
	connections connections
	capacity    *calls.Capacity
	errors      *observe.Log // for errors of the store
	closings    *observe.Log // for closed connections
}

// At most logLines rejections, broken connections and warnings are logged in a logPeriod.
const (
	logLines  = 10
	logPeriod = 10 * time.Second
)

// newLog returns a log that is bounded by logLines and logPeriod.
func newLog(to *slog.Logger) *observe.Log {
	return &observe.Log{To: to, Max: logLines, Period: logPeriod}
}

// New checks the configuration and returns a server that does not listen yet.
func New(c Config) (*Server, error) {
	s := &Server{
		config:   c,
		log:      c.Log,
		capacity: calls.NewCapacity(c.Limits.InFlight),
		metrics:  metrics.New(c.Version),
		started:  time.Now(),
		errors:   &observe.Log{To: c.Log, Max: 1, Period: time.Second},
		closings: newLog(c.Log),
	}
	s.observer = &calls.Observer{
		Metrics:  s.metrics,
		Tracer:   c.Tracer,
		TopKeys:  c.TopKeys,
		Recorder: c.Recorder,
		Log:      newLog(c.Log),
		Errors:   s.errors,
	}
	if c.Inline {
		s.inline = newInline(s.observer, c.Engine)
	}
	s.observer.AddMetrics(func() []*enforce.Rule { return s.api.Rules() })
	first, err := s.served(c.Policies)
	if err != nil {
		return nil, err
	}
	s.newEnvoy()
	s.policies.Engine = c.Engine
	s.overrides = s.policies.OpenOverrides()
	s.instances = newInstances(&c)
	if err := s.policies.Reload(first, s.accept); err != nil {
		return nil, err
	}
	s.warnMistakes()
	s.reloads.Store(&reloads{succeeded: s.set().Since})
	s.envoyReloads.Store(new(reloads))
	s.api = httpapi.New(s.handlers())
	if err := s.newListeners(); err != nil {
		return nil, err
	}
	s.addMetrics()
	return s, s.checkAccess()
}

// handlers returns the configuration of the HTTP handlers.
func (s *Server) handlers() httpapi.Config {
	return httpapi.Config{
		Policies:  s.policies.Version,
		Overrides: s.overrides,
		Instances: s.instances.list,
		Inline:    s.inline,
		Status:    s.status,
		Health:    s.health,
		Changes:   func() []string { return s.reloads.Load().changes },
		Sampler:   &s.sampler,
		Capacity:  s.capacity,
		Envoy:     s.envoy,
		HasDomain: func(name string) bool { return s.rules.Load().Domain(name) != nil },
		Metrics:   s.metrics.Handler(),
		Reread:    s.config.Reread,
		Errors:    s.errors,
		GateLog:   newLog(s.log),
		Log:       s.log,
		Auth:      s.config.Auth,
		TLS:       s.config.TLS,
		Insecure:  s.config.Insecure,
		GateID:    s.config.GateID,
		Tracing:   s.config.Tracer != nil,
		TopKeys:   s.config.TopKeys,
	}
}

// newInline returns the inline policies on an engine. Their sketches of denied keys are as
// small as those of a file with the same number of policies.
func newInline(observer *calls.Observer, e engine.Engine) *inline.Policies {
	of := *observer
	of.Policies = inline.Max
	return inline.New(e, func(next, before *enforce.Rule) {
		var old *calls.Rule
		if before != nil {
			old = calls.Of(before)
		}
		next.Handle = of.Rule(next, old)
	})
}

// set returns the policies of the file in force.
func (s *Server) set() *enforce.Version { return s.policies.Version() }

// status returns the state of the server for /readyz.
func (s *Server) status() httpapi.Readiness {
	set := s.set()
	now := httpapi.Readiness{
		Ready:      true,
		Policies:   len(set.Rules),
		Limits:     set.Limits,
		Store:      s.config.StoreName,
		Source:     set.File.Name,
		Generation: set.Generation,
		Since:      httpapi.Stamp(set.Since),
	}
	if s.api.Draining.Load() {
		now.Ready = false
		now.Why = "draining: the server is about to stop"
	}
	if err := s.storeDown(); err != nil {
		now.StoreDown = err.Error()
	}
	if r := s.reloads.Load(); !r.last.IsZero() {
		now.Reload = &httpapi.Reload{OK: r.err == nil, At: httpapi.Stamp(r.last)}
		if r.err != nil {
			now.Reload.Error = enforce.FirstError(r.err)
		}
	}
	if c := s.rules.Load(); c != nil {
		now.Envoy = &httpapi.EnvoyStatus{
			Source:  c.Source,
			Domains: len(c.Domains),
			Rules:   c.Rules(),
			Failed:  s.envoyReloads.Load().err != nil,
		}
	}
	return now
}

// storeDown returns why the store is unavailable, or nil. It makes no call of the store.
func (s *Server) storeDown() error {
	if err := s.config.StoreDown(); err != nil {
		return err
	}
	if f := s.config.Fallback; f != nil {
		return f.Status().Cause
	}
	return nil
}

// Listen opens the addresses. Connections then wait until Serve is called.
func (s *Server) Listen() error {
	for _, p := range s.ports {
		if err := p.open(s); err != nil {
			s.close()
			return err
		}
	}
	return nil
}

// close closes the listeners that Listen has opened.
func (s *Server) close() {
	for _, p := range s.ports {
		if p.socket != nil {
			p.socket.Close()
		}
	}
}

// Serve answers requests after Listen, until ctx is done. Then /readyz answers 503, and requests
// are still accepted for Limits.Linger. After that the requests in flight are answered, those of
// operators and probes last. An error means that a listener failed, or that requests took longer
// than Limits.Drain and were cut off. Serve is called once.
func (s *Server) Serve(ctx context.Context) error {
	// Overrides are read until the last request is answered, also if a listener has failed.
	following, unfollow := context.WithCancel(context.WithoutCancel(ctx))
	wait := s.follow(following)
	defer func() {
		unfollow()
		wait()
	}()
	stop := make(chan struct{})
	defer close(stop)
	go s.sample(stop)
	failed := make(chan error, len(s.ports))
	for _, p := range s.ports {
		go func() { failed <- p.serve(p.socket) }()
	}
	select {
	case err := <-failed:
		s.close()
		return fmt.Errorf("weir: cannot accept connections: %w", err)
	case <-ctx.Done():
	}
	s.api.Drain()
	s.log.Info("draining", "linger", s.config.Limits.Linger.String(),
		"drain", s.config.Limits.Drain.String())
	if s.rpc != nil {
		s.rpc.NotServing()
	}
	// Load balancers need time to notice that the server is not ready. Meanwhile every HTTP answer
	// closes its connection. So no client sends a request on an old connection when the address
	// is closed.
	select {
	case <-time.After(s.config.Limits.Linger):
	case <-failed:
	}
	return s.drain()
}

// drain waits for the requests in flight, for Limits.Drain at most. It drains the listeners
// concurrently, because each may have slow requests, and the admin listener last.
func (s *Server) drain() error {
	bound := s.config.Limits.Drain
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	errs := make([]error, len(s.ports)+1)
	var others sync.WaitGroup
	for i, p := range s.ports {
		if s.admin == nil || p != s.admin {
			others.Go(func() { errs[i] = p.end(ctx) })
		}
	}
	others.Wait()
	if s.admin != nil {
		errs[len(s.ports)] = s.admin.end(ctx)
	}
	err := cmp.Or(errs...)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("weir: some requests were not answered within %v and were cut off", bound)
	}
	return err
}
