// Package httpapi is the HTTP interface of weir serve. The table routes lists its calls;
// docs/http-api.md describes them, and so does GET /openapi.json, whose paths, bodies and
// typed answers are generated from the table.
//
// A request passes the files in this order: route.go finds its route and authenticates it,
// parse.go reads it, decide.go decides and answers. gate.go replaces the last two for proxies.
// status.go has calls that make no decision.
//
// A denial is a result, not an error (rule R15): POST /v1/check answers 200 with "allowed":
// false. Bad input gets 400 and a problem document (RFC 9457) that names the fault, its place and
// the next step. It charges nothing (rule R14). No metric holds a key. Of the log lines of this
// package only that of a changed override does, as --top-keys allows.
//
// Trade-off: a caller with the token can charge every key. There are no users and no rights by
// policy. Callers that do not trust each other need separate processes.
package httpapi

import (
	"context"
	_ "embed"
	"log/slog"
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
	Policies  func() *enforce.Version // the policies in force
	Overrides *enforce.Overrides      // overrides of the store
	Instances func(context.Context) ([]Instance, error)
	Inline    *inline.Policies // nil = calls carry no policies
	Status    func() Readiness
	Health    func() Health   // for GET /v1/stats
	Changes   func() []string // changes by the last successful reload
	Sampler   *calls.Sampler  // counts the recent calls
	Capacity  *calls.Capacity // bounds the requests that wait for the store
	Envoy     *envoy.Service
	HasDomain func(string) bool // reports whether an Envoy configuration has the domain
	Metrics   http.Handler
	Reread    func() error // for POST /v1/reload; nil = no file to read
	Errors    *observe.Log // for errors of the store
	GateLog   *observe.Log // for rejected gate calls
	Log       *slog.Logger // for the audit of changes

	Auth     Auth
	TLS      *listen.TLS // nil without TLS
	Insecure bool        // permits calls without a secret from other machines
	GateID   string      // the header field with the idempotency key of a gate call; "" = none
	Tracing  bool
	TopKeys  topkeys.Form
}

// API holds the handlers of all listeners.
type API struct {
	Config
	Bodies  *calls.Capacity // bounds the bodies above shortBody that are being received
	origins *http.CrossOriginProtection
	events  events

	// GatesOnly reports whether the gate secret is set and no token. Every other call is then
	// rejected, unless Insecure is set.
	GatesOnly bool

	Draining    atomic.Bool  // /readyz answers 503, and every answer closes its connection
	proxyWarned atomic.Bool  // warnOfProxy has logged its warning
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
		events:    events{stopping: make(chan struct{})},
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
