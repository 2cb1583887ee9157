// Package server is weir serve: its configuration, listeners, reloads and shutdown.
// Package httpapi holds the HTTP calls, package calls observes the calls of every front.
//
// Callers from other machines must show a token or a certificate, or New does not
// listen there; proxies may show a secret that opens only gates. Operators get a
// listener of their own as soon as other machines can reach the main one.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
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
	Policies *policy.File  // its Name is for people, too
	Inline   bool          // calls may carry policies of their own
	Engine   engine.Engine // decides

	// The parts of Engine, for metrics and the status. Default: none.
	Memory   *weir.Memory     // set if Engine keeps its histories in this process alone
	Disk     *weirdisk.Engine // the store on disk below Engine
	Fallback *fallback.Engine // set if the store of Engine can be down

	StoreName string       // the engine's name for people, without credentials
	StoreNote string       // a line of the banner; default: none
	StoreDown func() error // why the store is unavailable, as far as is known without a call

	Log     *slog.Logger
	Version string // the program's version, for /metrics
	Limits  Limits

	// Addresses are host:port or unix:/path; port 0 chooses a free one.
	Listen      string
	AdminListen string      // for operators; default: Listen if that is local, otherwise port 7072
	GRPCListen  string      // for Envoy's rate limit service; default: none
	RESPListen  string      // for Redis clients; default: none
	SocketMode  fs.FileMode // the mode of unix sockets; default 0660

	// Envoy has the domains of Envoy's service besides the policies; with it Policies may be
	// empty. The Server sets Engine and Log of EnvoyOptions.
	Envoy        *envoyconf.Config
	EnvoyOptions envoy.Options

	TLS  *listen.TLS // default: none
	Auth httpapi.Auth

	// Hosts are the names that Host may hold where callers need no secret, besides localhost,
	// addresses and the name in Listen.
	Hosts listen.Names

	// Insecure listens where other machines can connect, though Auth and TLS require nothing of
	// them.
	Insecure bool

	// GateID is the header field with the idempotency key of a gate call, which proxies must
	// set. Default: none.
	GateID string

	Tracer   observe.Tracer     // gets a span of each decision; default: none
	TopKeys  topkeys.Form       // how GET /v1/top shows keys; default: by their values
	Recorder *recorder.Recorder // records calls, and its owner closes it; default: none

	// Reread, for POST /v1/reload, reads the policies again and calls Reload. Default: there
	// is nothing to read again.
	Reread func() error
}

// Limits bound the resources of clients.
type Limits struct {
	ReadHeader time.Duration // to send a request's header
	Read       time.Duration // to send a whole request
	Write      time.Duration // from the end of a request's header to the end of its answer
	Idle       time.Duration // between two requests of a connection
	Prove      time.Duration // for a connection to authenticate where its listener requires that

	// Conns is the number of simultaneous connections of authenticated callers. Further ones
	// get 503.
	Conns int

	// PerAddress is the number of connections of one client address that have not
	// authenticated, or of all of them where no caller must. 0 = a quarter of Conns and at least
	// 16; none on loopback where no caller must authenticate.
	PerAddress int

	InFlight int           // simultaneous requests that wait for the store; further ones get 503
	Linger   time.Duration // from the first 503 of /readyz to the end of accepting requests
	Drain    time.Duration // then, for requests in flight to end
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

	reloading    sync.Mutex              // held while policies, rules and reloads are replaced
	reloads      atomic.Pointer[reloads] // the reloads of policies; never nil
	envoyReloads atomic.Pointer[reloads] // the reloads of rules; never nil

	envoy *envoy.Service
	rules atomic.Pointer[envoyconf.Config] // Envoy's rules besides the policies; nil = none

	ports       []*listener     // all of them, the main one first
	main        *listener       // programs and proxies
	admin       *listener       // operators; nil if main also serves them
	grpc        *listener       // nil without Config.GRPCListen
	redis       *listener       // nil without Config.RESPListen
	rpc         *envoy.Listener // serves grpc
	resp        *resp.Server    // serves redis
	connections connections
	capacity    *calls.Capacity
	errors      *observe.Log // for errors of the store
	closings    *observe.Log // for closed connections
}

// Rejections, broken connections and warnings are logged logLines times per logPeriod.
const (
	logLines  = 10
	logPeriod = 10 * time.Second
)

// newLog returns a log of such lines.
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
	s.observer.AddMetrics(func() []*enforce.Rule {
		return slices.Concat(s.set().Rules, s.inline.Rules())
	})
	first, err := s.served(c.Policies)
	if err != nil {
		return nil, err
	}
	s.newEnvoy()
	s.policies.Engine = c.Engine
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
		Inline:    s.inline,
		Status:    s.status,
		Capacity:  s.capacity,
		Envoy:     s.envoy,
		HasDomain: func(name string) bool { return s.rules.Load().Domain(name) != nil },
		Metrics:   s.metrics.Handler(),
		Reread:    s.config.Reread,
		Errors:    s.errors,
		GateLog:   newLog(s.log),
		Auth:      s.config.Auth,
		TLS:       s.config.TLS,
		Insecure:  s.config.Insecure,
		GateID:    s.config.GateID,
		Tracing:   s.config.Tracer != nil,
		TopKeys:   s.config.TopKeys,
	}
}

// newInline returns the inline policies on an engine. Their sketches of denied keys are as small as
// those of as many policies in a file.
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

// storeDown returns why the store is unavailable, as far as is known without a call; nil
// if it is up.
func (s *Server) storeDown() error {
	if err := s.config.StoreDown(); err != nil {
		return err
	}
	if f := s.config.Fallback; f != nil {
		return f.Status().Cause
	}
	return nil
}

// Listen opens the addresses. From then on connections wait for Serve.
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

// Serve answers requests after Listen, until ctx is done. Then /readyz answers 503, requests are
// still accepted for Limits.Linger, and those in flight are answered; operators and probes are
// served last. An error means that a listener failed, or that requests took longer than
// Limits.Drain and were cut off. A Server serves once.
func (s *Server) Serve(ctx context.Context) error {
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
	s.api.Draining.Store(true)
	s.log.Info("draining", "linger", s.config.Limits.Linger.String(),
		"drain", s.config.Limits.Drain.String())
	if s.rpc != nil {
		s.rpc.NotServing()
	}
	// Load balancers need time to see that the server is not ready. Every answer over HTTP
	// ends its connection meanwhile, so that no client is about to send a request on an old
	// one when the address closes.
	select {
	case <-time.After(s.config.Limits.Linger):
	case <-failed:
	}
	return s.drain()
}

// drain waits for the requests in flight, up to Limits.Drain: on all listeners together,
// since each may have slow requests, and on that of operators last.
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
