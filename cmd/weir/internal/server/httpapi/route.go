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
	role    role     // the callers that may use it
	also    bool     // with role decisions: operators may use it as well
	summary string   // for openapi.json
	start   string   // the path without the name at its end; set by init

	// One of serve and decide answers a request. decide gets a parsed body.
	serve  func(*API, http.ResponseWriter, *http.Request)
	decide func(*API, *scratch) error

	takes member    // with decide: members of the body; 0 = it has none
	op    engine.Op // with decide: the operation
}

var (
	get    = []string{http.MethodGet, http.MethodHead}
	post   = []string{http.MethodPost}
	remove = []string{http.MethodDelete}
	put    = []string{http.MethodPut}
)

// routes lists the paths. The 404 text, the 405 text and openapi.json follow from the table.
var routes = []route{
	{
		path: "/v1/check", methods: post, role: decisions, also: true,
		decide: (*API).answer, takes: checkMembers, op: engine.Attempt,
		summary: "decides an attempt and charges it",
	},
	{
		path: "/v1/checks", methods: post, role: decisions,
		decide: (*API).checks, takes: batchMembers, op: engine.Attempt,
		summary: "decides a batch of attempts in their order and charges each that is granted",
	},
	{
		path: "/v1/peek", methods: post, role: decisions, also: true,
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
		path: "/v1/keys/{policy}", methods: get, role: operators,
		decide: (*API).inspect, op: engine.Peek,
		summary: "shows what the limits hold for a key, and changes nothing",
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
		path: "/v1/overrides", methods: get, role: operators,
		serve:   (*API).serveOverrides,
		summary: "lists the overrides of all policies, those of the store and those of the file",
	},
	{
		path: "/v1/overrides/{policy}", methods: put, role: operators,
		serve: (*API).servePutOverride, takes: putOverrideMembers,
		summary: "gives a key, or the addresses of a network, another number for a limit",
	},
	{
		path: "/v1/overrides/{policy}", methods: remove, role: operators,
		serve: (*API).serveDeleteOverride, takes: deleteOverrideMembers,
		summary: "deletes an override of the store",
	},
	{
		path: "/v1/overrides/{policy}", methods: get, role: operators,
		serve:   (*API).serveOverridesOf,
		summary: "lists the overrides of a policy or, with a key, those for exactly that key",
	},
	{
		path: "/v1/policies", methods: get, role: decisions, also: true,
		serve:   (*API).servePolicies,
		summary: "lists the policies in force",
	},
	{
		path: "/v1/instances", methods: get, role: operators,
		serve:   (*API).serveInstances,
		summary: "lists the weir serve processes on the store",
	},
	{
		path: "/v1/top", methods: get, role: operators,
		serve:   (*API).serveTop,
		summary: "lists the keys that are denied most and those that are used most",
	},
	{
		path: statsPath, methods: get, role: operators,
		serve: (*API).serveStats,
		summary: "counts the calls of the last 15 minutes and reports the health; " +
			"with Accept: text/event-stream every two seconds",
	},
	{path: "/", methods: get, role: shell, serve: (*API).servePage},
	{path: "/page.css", methods: get, role: shell, serve: (*API).servePage},
	{path: "/page.js", methods: get, role: shell, serve: (*API).servePage},
	{path: "/icon.svg", methods: get, role: shell, serve: (*API).servePage},
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

// These are paths that other code compares, and the end of paths with the name of a policy.
const (
	readyPath  = "/readyz"
	keysPath   = "/v1/keys/"
	statsPath  = "/v1/stats"
	gatePath   = "/gate/"
	policyName = "{policy}"
)

var (
	byPath  = map[string]*route{}
	byStart []*route // the routes with a name at the end
	unknown = &route{role: operators}
	byWord  = map[string]string{} // paths by their last word, such as check, for suggestions
	listed  = listRoutes()        // for the answer 404

	samePath = map[string][]*route{} // the routes of a path, which differ in their methods
)

func init() {
	for i := range routes {
		to := &routes[i]
		samePath[to.path] = append(samePath[to.path], to)
		start, hasName := strings.CutSuffix(to.path, policyName)
		to.start = start
		if hasName {
			byStart = append(byStart, to)
		} else {
			byPath[to.path] = to
		}
		if to.role == shell {
			continue
		}
		byWord[path.Base(to.start)] = to.path
	}
}

// listRoutes returns the paths as "POST /v1/check, /v1/checks, …, GET /livez, …". A method stands
// before the first of consecutive paths that accept it.
func listRoutes() string {
	var shown []string
	last := ""
	for _, to := range routes {
		if to.role == shell {
			continue
		}
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

// by returns the route with the same path that accepts a method. If there is none, it returns to.
func (to *route) by(method string) *route {
	if to.methods == nil || slices.Contains(to.methods, method) {
		return to
	}
	for _, other := range samePath[to.path] {
		if slices.Contains(other.methods, method) {
			return other
		}
	}
	return to
}

// allMethods returns the methods that the path accepts.
func (to *route) allMethods() (all []string) {
	for _, other := range samePath[to.path] {
		all = append(all, other.methods...)
	}
	return all
}

// routeOf returns the first route of a path. An unknown path has no handler and the role operators,
// so that a caller without rights cannot find out which paths exist.
func routeOf(path string) *route {
	if to := byPath[path]; to != nil {
		return to
	}
	for _, to := range byStart {
		if strings.HasPrefix(path, to.start) {
			return to
		}
	}
	return unknown
}

// Endpoint has the properties of a listener that the handlers need.
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
// path. http.ServeMux is no alternative, because it answers unknown paths with plain text, and
// sends redirects.
func (on *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if on.API.Draining.Load() {
		w.Header()["Connection"] = closes
	}
	to := routeOf(r.URL.Path).by(r.Method)
	if to.takes == 0 {
		stopReading(w, r)
	}
	conn, _ := r.Context().Value(connKey{}).(*listen.Conn)
	x := exchange{API: on.API, on: on, to: to, conn: conn, w: w, r: r}
	x.access = x.accessToRoute()
	if to.role == gates && !on.Admin && x.access == open {
		x.openGate()
		return
	}
	harden(w.Header())
	if x.authenticate() && x.admit() && x.find() && x.allow() {
		x.serve()
	}
}

// exchange is a request with the state of the checks before its handler. Each check reports whether
// the request passes. If it does not, the check has written the answer.
type exchange struct {
	*API
	on     *Endpoint
	to     *route
	conn   *listen.Conn // nil = unknown
	access access
	w      http.ResponseWriter
	r      *http.Request
}

// accessToRoute authenticates the request for its route.
func (x *exchange) accessToRoute() access {
	as := x.to.role
	if x.to.also && x.on.Admin {
		as = operators
	}
	got := x.accessOf(x.r, x.conn, as, x.on)
	if x.to.also && x.on.Shared && got == closed {
		got = x.accessOf(x.r, x.conn, operators, x.on)
	}
	return got
}

// isOpen reports whether the caller still has the right to its route.
func (x *exchange) isOpen() bool { return x.accessToRoute() == open }

// openGate serves a gate call of an authorized caller. It accepts any method and origin, because a
// proxy may forward those of its client.
func (x *exchange) openGate() {
	if !x.conn.Admit() {
		x.refuseConnection(x.w)
		return
	}
	x.serveGate(x.w, x.r)
}

// authenticate rejects a request without the secret or certificate of its role. It also rejects a
// request that a web page may have sent under a name of its own site (DNS rebinding).
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

// admit takes a slot for the connection. A probe and the operators' page take none, because their
// callers need not authenticate. Their connection is closed after the answer.
func (x *exchange) admit() bool {
	if x.to.role == probes || x.to.role == shell {
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
	elsewhere := x.on.Admin && !x.to.also // decisions and gates are served at the other listener
	switch x.to.role {
	case operators, shell:
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

// allow rejects a request with a method that the path does not accept, or from a web page of
// another site.
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
	case x.to.path == statsPath && wantsEvents(x.r):
		x.stream()
	case x.to.path == readyPath && x.mainAccess() != open:
		x.serveReadyBriefly(x.w)
	default:
		x.to.serve(x.API, x.w, x.r)
	}
}

// mainAccess authenticates the request for the main calls of its listener.
func (x *exchange) mainAccess() access { return x.mainAccessOf(x.r, x.conn, x.on) }

// harden sets header fields so that a browser does not guess the type of an answer, store it, run
// it or frame it. A gate's 204 has no body that needs them, and is the most frequent answer.
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
		next = "DELETE " + keysPath + policyName + "?dimension=value resets a key."
	case meant != "":
		next = "did you mean " + meant + "?"
	}
	detail := "there is no " + answer.Shown(r.URL.Path) + "; " + next + " There are " + listed
	refuse(w, r, http.StatusNotFound, detail)
}

// meantPath returns the path that an unknown one probably means, or "". It compares the words
// between the slashes, because whole paths are similar if they only begin alike.
func meantPath(unknown string) string {
	known := slices.Sorted(maps.Keys(byWord))
	for word := range strings.SplitSeq(unknown[:min(len(unknown), 256)], "/") {
		near := nearest.Name(word, known)
		if near != "" && near[0] == word[0]|0x20 { // /take is not a misspelled /gate
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

// wrongMethod answers a request with a method that the path does not accept.
func (a *API) wrongMethod(w http.ResponseWriter, r *http.Request, to *route) {
	allow := strings.Join(to.allMethods(), ", ")
	w.Header()["Allow"] = []string{allow}
	detail := r.URL.Path + " takes " + allow + ", not " + answer.Shown(r.Method)
	if to.takes != 0 {
		detail += "; send " + bodies[to.takes].example + " as the body"
	}
	refuse(w, r, http.StatusMethodNotAllowed, detail)
}

// Auth holds the secrets of callers. Without any, calls need none, and the server listens only at
// addresses that other machines cannot reach. With Gate alone, only gate calls are authorized.
type Auth struct {
	Token *listen.Secret // authorizes decisions and gates, as Authorization: Bearer
	Gate  *listen.Secret // authorizes only gates, as GateHeader

	// Admin authorizes the calls of operators, as Authorization: Bearer. Without it Token
	// authorizes them, if the main listener serves operators.
	Admin *listen.Secret
}

// GateHeader is the header field with the gate secret. Authorization is no alternative, because
// proxies forward the field of their own clients.
const GateHeader = "Weir-Gate-Secret"

// role is a group of callers.
type role uint8

const (
	operators role = iota // metrics, reload, resets
	decisions             // programs
	gates                 // proxies
	probes                // health checks; they need no secret
	shell                 // browsers that load the operators' page, which needs no secret
)

// access is the result of authenticating a request.
type access uint8

const (
	closed access = iota // the secret or certificate is missing or wrong
	misled               // no secret is needed, and a web page may have sent the request
	open
)

// accessOf authenticates a request of a connection for a role on a listener. c is nil if the
// connection is unknown.
//
// A web page may send a request under a name of its own site that resolves to this machine (DNS
// rebinding). If callers must authenticate, such a page has no secret and is rejected.
//
// Gates are exempt, because proxies send arbitrary names, such as those of their clients. There a
// page can only charge keys, as it can with a plain link. The gate secret prevents that.
func (a *API) accessOf(r *http.Request, c *listen.Conn, as role, on *Endpoint) access {
	bearer := func(secret *listen.Secret) access {
		if secret.Matches(listen.Bearer(r.Header.Get("Authorization"))) {
			return open
		}
		return closed
	}
	switch {
	case as == probes || as == shell:
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

// errNoSlot rejects an authenticated request whose connection has no slot.
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
