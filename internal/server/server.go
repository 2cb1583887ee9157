// Package server is what `weir serve` serves: decisions over HTTP.
//
//	POST   /v1/check            one decision; 200 whether allowed or denied
//	POST   /v1/peek             the same, changing nothing
//	POST   /v1/record           adds units without asking
//	POST   /v1/refund           takes back units of a grant
//	POST   /v1/reserve          a check whose units can be settled once:
//	POST   /v1/settle           with what was used
//	POST   /v1/release          with nothing
//	DELETE /v1/keys/{policy}    forgets a key's histories, ?dimension=value…
//	GET    /v1/policies         what is enforced
//	GET    /v1/top              which keys are denied most, for operators
//	ANY    /gate/{policy}       for proxies: 204, or 429 with header fields
//	POST   /json                Envoy's rate limit service in JSON; the same over gRPC
//	GET    /livez /readyz /healthcheck /metrics
//
// A check, a record, a reservation or a refund with an "id", or an Idempotency-Key in its
// header, can be posted again when its answer was lost, and is charged once; the
// answer then says "repeated".
//
// A denial is an answer, not an error (R15). Bad input is answered with 400 and a
// problem document (RFC 9457) that says what is wrong, where, and what to do; then
// nothing was charged (R14). No log line and no metric holds a key.
//
// Callers from other machines must show a token or a certificate (Guards, TLS),
// or New refuses to listen there; proxies may show a secret that opens gates
// alone. What is for operators has a listener of its own as soon as the main one
// leaves loopback.
//
// The bargain: whoever shows the token can charge every key. There are no users
// and no rights by policy; a process per trust domain takes their place.
package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/front/resp"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/metrics"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/policy"
)

// Config is what a Server serves, and how. Only Policies is required.
type Config struct {
	Policies  *policy.File
	Source    string      // where the policies come from, for people: a file's name
	Engine    weir.Engine // decides; default: a memory engine of its own
	StoreName string      // what the engine is, for people; without credentials. Default: memory
	// StoreIdentity returns a name that all servers on the store share, and no other store
	// has; default: that of an engine that no other process shares.
	StoreIdentity func(context.Context) (string, error)
	StoreDown     func() error // why the store cannot be asked, as far as is known without asking; nil = nothing is known
	Listen        string       // host:port or unix:/path; default 127.0.0.1:7070, port 0 chooses a free one
	Log           *slog.Logger // default: no log
	Version       string       // of the program, for /metrics; default: unknown
	Limits        Limits

	GRPCListen   string            // host:port or unix:/path for Envoy's rate limit service; default: none
	Envoy        *envoyconf.Config // its domains besides the policies; with it Policies may be empty
	EnvoyOptions envoy.Options     // how they are answered; Engine and Log are those of the Server

	ReservationSecret string         // of all servers that settle each other's reservations; default: one of this process's own
	GateID            string         // the header field that names the operation a gate is asked about, which proxies must set; default: none does
	Tracer            observe.Tracer // is told of decisions; default: none, and then nothing is computed for it
	TopKeys           TopKeys        // what GET /v1/top tells; default: the values of keys

	RESPListen  string         // for Redis clients; default: none
	Throttler   resp.Throttler // decides for their CL.THROTTLE; default: a table of its own in memory
	AdminListen string         // for operators; default: Listen if that is local, else 127.0.0.1:7072
	SocketMode  fs.FileMode    // of unix sockets; default 0660
	TLS         *listen.TLS    // default: none
	Guards      Guards
	Hosts       listen.Names // what callers may call a listener that asks nothing of them, besides localhost, addresses and the name in Listen
	Insecure    bool         // listen where other machines can reach it though Guards and TLS ask nothing of them

	// Reread, for POST /v1/reload, reads the policies where they come from and calls
	// Reload or ReloadFailed. Default: there is nothing to read again.
	Reread func() error
}

// Limits bound what clients may hold on to. Zero values stand for the defaults.
type Limits struct {
	ReadHeader time.Duration // to send a request's header; default 5s
	Read       time.Duration // to send a whole request; default 10s
	Write      time.Duration // from the end of a request's header to the end of its answer; default 20s
	Idle       time.Duration // between two requests of a connection; default 2m
	Conns      int           // connections at once of callers that have shown what they must; more are answered with 503; default 10,000
	PerAddress int           // connections of one client address that have shown nothing, or all of them where callers need show nothing; default a quarter of Conns and at least 16, none on loopback where callers need show nothing
	Prove      time.Duration // for a connection to show what its listener requires; default 10s
	InFlight   int           // requests that wait for the store at once, more are answered with 503; default 1,000
	Linger     time.Duration // from /readyz saying no until no more requests are taken; default 250ms, below 0 none
	Drain      time.Duration // then, for requests under way to end; default 10s
}

// maxHeader is the largest request header, in bytes.
const maxHeader = 16 << 10

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&l.ReadHeader, 5*time.Second)
	set(&l.Read, 10*time.Second)
	set(&l.Write, 20*time.Second)
	set(&l.Idle, 2*time.Minute)
	set(&l.Prove, 10*time.Second)
	set(&l.Linger, 250*time.Millisecond)
	set(&l.Drain, 10*time.Second)
	if l.Conns == 0 {
		l.Conns = 10_000
	}
	if l.InFlight == 0 {
		l.InFlight = 1000
	}
	return l
}

// Server serves the decisions of one policy file on one engine. Reload replaces
// the file.
type Server struct {
	config  Config
	log     *slog.Logger
	serving atomic.Pointer[served] // the policies in force
	metrics *metrics.Metrics
	routes  map[string]route
	origins *http.CrossOriginProtection

	reloading sync.Mutex              // held while serving and reloads are replaced
	reloads   atomic.Pointer[reloads] // what became of reloads; never nil

	envoy                     *envoy.Service
	rules                     atomic.Pointer[envoyconf.Config] // that envoy answers by besides the policies; nil = none
	envoyReloads, envoyErrors atomic.Int64
	envoyFailed               atomic.Bool // the last attempt to reload the rules failed

	rpc         *rpc      // nil without Config.GRPCListen
	resp        *respFace // nil without Config.RESPListen
	main, admin *face     // admin is nil when main answers operators too
	seal        *seal     // of the ids of reservations
	claims      *claims   // of reservations that were settled
	identity    identity  // of the store of reservations
	portions    portions
	draining    atomic.Bool
	room        room
	bodies      room // places of bodies longer than shortBody that are being read

	badInputs  atomic.Int64 // requests refused as bad input
	strangers  atomic.Int64 // requests that did not show what they must
	unsaid     atomic.Int64 // errors of the engine since the last line of the log
	complained atomic.Int64 // Unix second of that line
}

// New checks the policies and returns a server that does not listen yet.
func New(c Config) (*Server, error) {
	if c.Engine == nil {
		c.Engine = weir.NewMemory()
	}
	if c.StoreName == "" {
		c.StoreName = "memory"
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:7070"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	c.Limits = c.Limits.withDefaults()
	if err := checkGateID(c.GateID); err != nil {
		return nil, fmt.Errorf("--gate-id-header: %w", err)
	}
	s := &Server{config: c, log: c.Log, origins: http.NewCrossOriginProtection()}
	s.metrics = metrics.New(c.Version, s.counted)
	first, err := s.compile(c.Policies, c.Source, nil)
	if err != nil {
		return nil, err
	}
	s.newEnvoy()
	if err := s.envoy.Load(c.Envoy, first.addressable()); err != nil {
		return nil, err
	}
	if s.seal, err = newSeal(c.ReservationSecret); err != nil {
		return nil, err
	}
	s.claims = newClaims(c.Engine)
	if s.identity.fetch = c.StoreIdentity; c.StoreIdentity == nil {
		s.identity.fetch = identityOf(c.Engine)
	}
	s.serving.Store(first)
	s.reloads.Store(&reloads{succeeded: first.since})
	s.routes = s.table()
	s.room.most, s.bodies.most = int64(c.Limits.InFlight), longBodies
	if err := s.newFaces(); err != nil {
		return nil, err
	}
	if s.rpc, err = s.newRPC(); err != nil {
		return nil, err
	}
	if s.resp, err = s.newRESP(); err != nil {
		return nil, err
	}
	s.addMetrics()
	return s, errors.Join(s.exposed(), s.exposedRESP(), s.closed())
}
