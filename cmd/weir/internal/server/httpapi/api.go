// Package httpapi is the HTTP interface of weir serve. The table routes lists its calls;
// docs/http-api.md describes them, and so does GET /openapi.json, whose paths, bodies and
// typed answers are generated from the table.
//
// A request passes the files in this order: route.go finds its route and authenticates it,
// parse.go reads it, decide.go decides and answers. gate.go does the last two for proxies.
// status.go has the calls that decide nothing.
//
// A denial is a result, not an error (R15): POST /v1/check answers 200 with "allowed":
// false. Bad input is answered with 400 and a problem document (RFC 9457) that names the
// fault, its place and the next step; then nothing was charged (R14). No log line and no
// metric holds a key.
//
// The trade-off: a caller with the token can charge every key. There are no users and no
// rights by policy; a process per trust domain takes their place.
package httpapi

import (
	_ "embed"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/inline"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/enforce"
)

// Config holds the parts of the server that the handlers use.
type Config struct {
	Policies  func() *enforce.Version // in force
	Inline    *inline.Policies        // nil = calls carry no policies of their own
	Status    func() Readiness
	Capacity  *calls.Capacity // for requests that wait for the store
	Envoy     *envoy.Service
	HasDomain func(string) bool // reports whether an Envoy configuration has the domain
	Metrics   http.Handler
	Reread    func() error // loads the policy file again, for POST /v1/reload; nil = there is none
	Errors    *observe.Log // for errors of the store
	GateLog   *observe.Log // for rejected gate calls

	Auth     Auth
	TLS      *listen.TLS // nil without TLS
	Insecure bool        // calls that no secret protects are open everywhere
	GateID   string      // the header field with the idempotency key of a gate call; "" = none
	Tracing  bool
	TopKeys  topkeys.Form
}

// API holds the handlers of all listeners.
type API struct {
	Config
	Bodies  *calls.Capacity // for bodies longer than shortBody that are being received
	origins *http.CrossOriginProtection

	// GatesOnly is whether the gate secret is set and no token: then every other call is closed,
	// unless Insecure opens it.
	GatesOnly bool

	Draining    atomic.Bool  // the server is not ready, and every answer closes its connection
	proxyWarned atomic.Bool  // a gate call has shown that a proxy hides the clients
	BadRequests atomic.Int64 // requests that were rejected as bad input
	// requests without the secret or certificate they need, of any protocol
	Unauthorized atomic.Int64
}

// finder finds the policies of calls.
func (a *API) finder() inline.Finder { return inline.Finder{Version: a.Policies, Inline: a.Inline} }

// New returns the handlers of a configuration.
func New(c Config) *API {
	return &API{
		Config:    c,
		Bodies:    calls.NewCapacity(longBodies),
		origins:   http.NewCrossOriginProtection(),
		GatesOnly: c.Auth.Gate != nil && c.Auth.Token == nil && !c.Insecure,
	}
}

//go:embed openapi.json
var openAPI []byte

// serveOpenAPI answers with the OpenAPI document.
func (a *API) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, openAPI)
}

// Stamp formats an instant: RFC 3339, UTC, whole seconds.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
