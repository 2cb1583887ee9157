package httpapi

import (
	"context"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/internal/problemdoc"
)

// route is one path of the interface.
type route struct {
	path    string   // with {policy} at its end, the rest of the path is a name
	methods []string // nil = any
	role    role     // the callers
	summary string   // for openapi.json

	// Either of the two answers a request. A call of decisions has a parsed body.
	serve  func(*API, http.ResponseWriter, *http.Request)
	decide func(*API, *scratch) error

	takes member    // with decide: members of the body; 0 = it has none
	op    engine.Op // with decide: the operation
}

var (
	get    = []string{http.MethodGet, http.MethodHead}
	post   = []string{http.MethodPost}
	remove = []string{http.MethodDelete}
)

// routes lists the paths. The 404 text, the 405 text and openapi.json follow from the table.
var routes = []route{
	{
		path: "/v1/check", methods: post, role: decisions,
		decide: (*API).answer, takes: checkMembers, op: engine.Attempt,
		summary: "decides an attempt and charges it",
	},
	{
		path: "/v1/checks", methods: post, role: decisions,
		decide: (*API).checks, takes: batchMembers, op: engine.Attempt,
		summary: "decides a batch of attempts in their order and charges each that is granted",
	},
	{
		path: "/v1/peek", methods: post, role: decisions,
		decide: (*API).answer, takes: peekMembers, op: engine.Peek,
		summary: "decides an attempt and changes nothing",
	},
	{
		path: "/v1/count", methods: post, role: decisions,
		decide: (*API).count, takes: countMembers, op: engine.Count,
		summary: "counts the units of the last milliseconds in a rolling limit and " +
			"changes nothing",
	},
	{
		path: "/v1/record", methods: post, role: decisions,
		decide: (*API).answer, takes: recordMembers, op: engine.Record,
		summary: "adds units without a decision",
	},
	{
		path: "/v1/refund", methods: post, role: decisions,
		decide: (*API).refund, takes: refundMembers, op: engine.Refund,
		summary: "takes units of a grant back",
	},
	{
		path: "/v1/reserve", methods: post, role: decisions,
		decide: (*API).reserve, takes: reserveMembers, op: engine.Attempt,
		summary: "decides an attempt whose units are settled later",
	},
	{
		path: "/v1/settle", methods: post, role: decisions,
		decide: (*API).settle, takes: settleMembers,
		summary: "settles a reservation with the units that were used, by default all",
	},
	{
		path: "/v1/release", methods: post, role: decisions,
		decide: (*API).settle, takes: releaseMembers,
		summary: "settles a reservation with 0 units",
	},
	{
		path: "/v1/extend", methods: post, role: decisions,
		decide: (*API).extend, takes: extendMembers,
		summary: "renews the life and the hold of a reservation, and takes further units, " +
			"all or none",
	},
	{
		path: "/v1/block", methods: post, role: operators,
		decide: (*API).block, takes: blockMembers, op: engine.Block,
		summary: "blocks a key for a time, in the limits that count by every dimension or " +
			"in those that limits names; 0 ends blocks",
	},
	{
		path: "/v1/keys/{policy}", methods: remove, role: operators,
		decide: (*API).reset, op: engine.Reset,
		summary: "drops the histories of a key in the limits that count by every " +
			"dimension, or in those that limit names",
	},
	{
		path: "/gate/{policy}", role: gates,
		serve:   (*API).serveGate,
		summary: "decides an attempt for a proxy and charges it",
	},
	{
		path: "/v1/reload", methods: post, role: operators,
		serve:   (*API).serveReload,
		summary: "reads the policy file again",
	},
	{
		path: "/v1/policies", methods: get, role: decisions,
		serve:   (*API).servePolicies,
		summary: "lists the policies in force",
	},
	{
		path: "/v1/top", methods: get, role: operators,
		serve:   (*API).serveTop,
		summary: "lists the keys that are denied most",
	},
	{
		path: "/openapi.json", methods: get, role: decisions,
		serve:   (*API).serveOpenAPI,
		summary: "returns this document",
	},
	{
		path: "/livez", methods: get, role: probes,
		serve:   (*API).serveLive,
		summary: "reports that the process answers",
	},
	{
		path: "/readyz", methods: get, role: probes,
		serve:   (*API).serveReady,
		summary: "reports whether the server takes requests",
	},
	{
		path: "/metrics", methods: get, role: operators,
		serve:   (*API).serveMetrics,
		summary: "returns metrics in the text format of Prometheus",
	},
}

// Paths that are compared elsewhere, and the end of those with the name of a policy.
const (
	readyPath  = "/readyz"
	resetPath  = "/v1/keys/"
	gatePath   = "/gate/"
	policyName = "{policy}"
)

var (
	byPath  = map[string]*route{}
	byStart []*route // the routes with a name at the end
	unknown = &route{role: operators}
	byWord  = map[string]string{} // paths by their last word, such as check, for suggestions
	listed  = listRoutes()        // for the answer 404
)

func init() {
	for i := range routes {
		to := &routes[i]
		if to.hasName() {
			byStart = append(byStart, to)
		} else {
			byPath[to.path] = to
		}
		byWord[path.Base(to.start())] = to.path
	}
}

// hasName reports whether the path ends with the name of a policy.
func (to *route) hasName() bool { return strings.HasSuffix(to.path, policyName) }

// start returns the path without the name at its end.
func (to *route) start() string { return strings.TrimSuffix(to.path, policyName) }

// listRoutes returns the paths as "POST /v1/check, /v1/checks, …, GET /livez, …": a method
// stands before the first of the paths that follow each other and take it.
func listRoutes() string {
	var shown []string
	last := ""
	for _, to := range routes {
		method := "ANY"
		if len(to.methods) > 0 {
			method = to.methods[0]
		}
		text := to.path
		if method != last {
			text = method + " " + text
		}
		shown = append(shown, text)
		last = method
	}
	return strings.Join(shown, ", ")
}

// routeOf returns the route of a path. An unknown path has no handler, and the role of
// operators: so a caller without rights does not learn which paths exist.
func routeOf(path string) *route {
	if to := byPath[path]; to != nil {
		return to
	}
	for _, to := range byStart {
		if strings.HasPrefix(path, to.start()) {
			return to
		}
	}
	return unknown
}

// Endpoint is one listener, as far as the handlers need it.
type Endpoint struct {
	API     *API
	Admin   bool          // the listener for operators
	Shared  bool          // the main listener, which also serves operators
	Local   bool          // only this machine can connect
	Clients bool          // client certificates authenticate
	Private bool          // callers must authenticate, except for probes
	Names   *listen.Names // that Host may hold in requests without authentication; nil = any
}

// ServeHTTP authenticates a request, admits its connection and calls the handler of its
// path. http.ServeMux is no alternative: it answers unknown paths with plain text, and
// redirects.
func (on *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if on.API.Draining.Load() {
		w.Header()["Connection"] = closes
	}
	to := routeOf(r.URL.Path)
	if to.takes == 0 {
		stopReading(w, r)
	}
	conn, _ := r.Context().Value(connKey{}).(*listen.Conn)
	x := exchange{API: on.API, on: on, to: to, conn: conn, w: w, r: r}
	x.access = x.accessOf(r, conn, to.role, on)
	if to.role == gates && !on.Admin && x.access == open {
		x.openGate()
		return
	}
	harden(w.Header())
	if x.authenticate() && x.admit() && x.find() && x.allow() {
		x.serve()
	}
}

// exchange is a request on its way through the checks before its handler. Each check reports
// whether the request passes; otherwise it has answered.
type exchange struct {
	*API
	on     *Endpoint
	to     *route
	conn   *listen.Conn // nil = unknown
	access access
	w      http.ResponseWriter
	r      *http.Request
}

// openGate serves a call of a gate that is open to the caller. It takes any method and origin,
// since a proxy may forward those of its client.
func (x *exchange) openGate() {
	if !x.conn.Admit() {
		x.refuseConnection(x.w)
		return
	}
	x.serveGate(x.w, x.r)
}

// authenticate rejects a request without the secret or certificate of its role, and one that a
// page in a browser may have sent under a name of its own site.
func (x *exchange) authenticate() bool {
	switch x.access {
	case closed:
		x.unauthorized(x.w, x.r, x.to.role)
		return false
	case misled:
		refuse(x.w, x.r, http.StatusForbidden, "the Host field names "+answer.Shown(x.r.Host)+
			", and a page of that site may not call this; use localhost, an IP address, "+
			"or a name that weir serve was given by --host NAME, "+
			"or require a token by --token-file FILE")
		return false
	}
	return true
}

// admit takes a slot for the connection. A probe needs none: the connection of a stranger would
// occupy it, and is closed after the answer.
func (x *exchange) admit() bool {
	if x.to.role == probes {
		if x.on.Private && !x.conn.Admitted() && x.mainAccess() == closed {
			x.w.Header()["Connection"] = closes
		}
		return true
	}
	if !x.conn.Admit() {
		x.refuseConnection(x.w)
		return false
	}
	return true
}

// find rejects a request for an unknown path, or for one of another listener.
func (x *exchange) find() bool {
	elsewhere := x.on.Admin // where decisions and gates are served
	switch x.to.role {
	case operators:
		elsewhere = !x.on.Admin && !x.on.Shared
	case probes:
		elsewhere = false
	}
	switch {
	case x.to == unknown:
		x.notFound(x.w, x.r)
		return false
	case elsewhere:
		x.notHere(x.w, x.r, x.on)
		return false
	}
	return true
}

// allow rejects a request by a method that the path does not take, or from a page of another
// site.
func (x *exchange) allow() bool {
	if !slices.Contains(x.to.methods, x.r.Method) {
		x.wrongMethod(x.w, x.r, x.to)
		return false
	}
	if err := x.origins.Check(x.r); err != nil {
		refuse(x.w, x.r, http.StatusForbidden,
			"a page of another site may not call this; call it from your own server")
		return false
	}
	return true
}

// serve calls the handler of the path.
func (x *exchange) serve() {
	switch {
	case x.to.decide != nil:
		x.serveCall(x.w, x.r, x.to)
	case x.to.path == readyPath && x.mainAccess() != open:
		x.serveReadyBriefly(x.w)
	default:
		x.to.serve(x.API, x.w, x.r)
	}
}

// mainAccess authenticates the request for the main calls of its listener.
func (x *exchange) mainAccess() access { return x.mainAccessOf(x.r, x.conn, x.on) }

// harden forbids a browser to guess, keep, run or frame an answer. A gate's 204 has
// nothing to guess, run or frame, and is the most frequent answer.
func harden(h http.Header) {
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	h["Content-Security-Policy"] = noContent
}

// refuse answers a request that no handler reads.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	stopReading(w, r)
	problemdoc.Write(w, status, detail)
}

// notFound answers a request for an unknown path.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	next := "POST /v1/check decides an attempt, and GET /readyz reports the health."
	meant := meantPath(r.URL.Path)
	switch {
	case path.Base(r.URL.Path) == "reset":
		next = "DELETE " + resetPath + policyName + "?dimension=value resets a key."
	case meant != "":
		next = "did you mean " + meant + "?"
	}
	detail := "there is no " + answer.Shown(r.URL.Path) + "; " + next + " There are " + listed
	refuse(w, r, http.StatusNotFound, detail)
}

// meantPath returns the path that an unknown one probably means, or "". It compares the words
// between the slashes: whole paths are alike by the start that they share.
func meantPath(unknown string) string {
	known := slices.Sorted(maps.Keys(byWord))
	for word := range strings.SplitSeq(unknown[:min(len(unknown), 256)], "/") {
		near := nearest.Name(word, known)
		if near != "" && near[0] == word[0]|0x20 { // take is no mistyped gate
			return byWord[near]
		}
	}
	return ""
}

// notHere answers a request for a path of another listener.
func (a *API) notHere(w http.ResponseWriter, r *http.Request, on *Endpoint) {
	elsewhere := "what is for operators is answered by the listener of --admin-listen"
	if on.Admin {
		elsewhere = "decisions and gates are answered by the listener of --listen"
	}
	detail := answer.Shown(r.URL.Path) + " is not answered here; " + elsewhere
	refuse(w, r, http.StatusNotFound, detail)
}

// wrongMethod answers a request by a method that the path does not take.
func (a *API) wrongMethod(w http.ResponseWriter, r *http.Request, to *route) {
	allow := strings.Join(to.methods, ", ")
	w.Header()["Allow"] = []string{allow}
	detail := r.URL.Path + " takes " + allow + ", not " + answer.Shown(r.Method)
	if to.takes != 0 {
		detail += "; send " + bodies[to.takes].example + " as the body"
	}
	refuse(w, r, http.StatusMethodNotAllowed, detail)
}

// Auth holds the secrets of callers. Without any, calls need none, and the server listens
// only where no other machine can connect. Gate alone opens only gates.
type Auth struct {
	Token *listen.Secret // opens decisions and gates, as Authorization: Bearer
	Gate  *listen.Secret // opens gates only, as GateHeader

	// Admin opens the calls of operators, as Authorization: Bearer. Without it Token does, on a
	// shared listener.
	Admin *listen.Secret
}

// GateHeader is the header field with the gate secret. Authorization is no alternative:
// proxies forward that of their own clients.
const GateHeader = "Weir-Gate-Secret"

// role is a group of callers.
type role uint8

const (
	operators role = iota // metrics, reload, resets
	decisions             // programs
	gates                 // proxies
	probes                // health checks; they need no secret
)

// access is the result of authenticating a request.
type access uint8

const (
	closed access = iota // the secret or certificate is missing or wrong
	misled               // none is needed here, and a page in a browser may have sent the request
	open
)

// accessOf authenticates a request of a connection for a role on a listener. c is nil if the
// connection is unknown.
//
// A page in a browser may send a request under a name of its own site that resolves to this
// machine (DNS rebinding). Where callers must authenticate that is impossible: such a page has
// no secret. Gates are exempt: proxies send arbitrary names, such as their clients'. A page can
// only charge keys there, as it can with a plain link; the gate secret prevents that.
func (a *API) accessOf(r *http.Request, c *listen.Conn, as role, on *Endpoint) access {
	bearer := func(secret *listen.Secret) access {
		if secret.Matches(listen.Bearer(r.Header.Get("Authorization"))) {
			return open
		}
		return closed
	}
	switch {
	case as == probes:
		return open
	case as == operators && a.Auth.Admin != nil:
		return bearer(a.Auth.Admin)
	case as == gates && a.Auth.Gate != nil:
		if a.Auth.Gate.Matches(r.Header.Get(GateHeader)) {
			return open
		}
		if a.Auth.Token == nil && !on.Clients {
			return closed
		}
	}
	switch {
	case as == operators && on.Admin && on.Local: // no secret is needed
	case on.Clients && a.TLS.Verified(c, r.TLS):
		return open
	case a.Auth.Token != nil:
		return bearer(a.Auth.Token)
	case on.Clients || a.GatesOnly:
		return closed
	}
	if as != gates && on.Names != nil && !on.Names.Has(r.Host) {
		return misled
	}
	return open
}

// mainAccessOf authenticates a request for the main calls of its listener.
func (a *API) mainAccessOf(r *http.Request, c *listen.Conn, on *Endpoint) access {
	if on.Admin {
		return a.accessOf(r, c, operators, on)
	}
	return a.accessOf(r, c, decisions, on)
}

// IsPrivate reports whether callers of a listener must authenticate.
func (a *API) IsPrivate(on *Endpoint) bool {
	return a.mainAccessOf(new(http.Request), nil, on) == closed
}

// unauthorized rejects a request and closes its connection. Proxies treat 401 as a
// failure or pass it on, but never as a denial.
func (a *API) unauthorized(w http.ResponseWriter, r *http.Request, as role) {
	a.Unauthorized.Add(1)
	w.Header()["Connection"] = closes
	w.Header()["Www-Authenticate"] = challenge
	reason := "the bearer token is missing or wrong; " +
		"send Authorization: Bearer TOKEN, with the token of this listener"
	switch {
	case as == gates:
		reason = "the gate secret is missing or wrong; " +
			"send " + GateHeader + ", with the secret of --gate-secret-file"
		a.logGate("authentication required: the header field " + GateHeader +
			" is missing or wrong")
	case a.GatesOnly && (as != operators || a.Auth.Admin == nil):
		reason = "weir serve has a --gate-secret-file and no token, so only gates are open; " +
			"a --token-file, and for operators an --admin-token-file or --admin-listen, " +
			"opens other calls with a token, --insecure-listen without"
	}
	refuse(w, r, http.StatusUnauthorized, "authentication required: "+reason)
}

var (
	challenge = []string{`Bearer realm="weir"`}
	closes    = []string{"close"}
	oneSecond = []string{"1"}
)

// connKey is the key of a request's connection in its context.
type connKey struct{}

// WithConn stores the connection in the context of its requests, for http.Server.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, listen.ConnOf(c))
}

// errNoSlot rejects an authenticated request if its connection got no slot.
var errNoSlot error = &calls.Problem{
	Err: calls.ErrBusy,
	Detail: "no decision: too many open connections; nothing was charged, " +
		"try again in a second, or raise --max-connections",
}

// refuseConnection answers with errNoSlot and closes the connection.
func (a *API) refuseConnection(w http.ResponseWriter) {
	a.Capacity.Rejected.Add(1)
	w.Header()["Connection"] = closes
	a.reject(w, errNoSlot)
}
