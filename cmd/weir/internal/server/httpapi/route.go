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
	role    role
	serve   func(*API, http.ResponseWriter, *http.Request)
	decide  func(*API, *scratch) error // instead of serve, for a parsed body
	summary string                     // for openapi.json
	takes   member                     // members of the body; 0 = it has none
	op      engine.Op                  // the op of the request
}

var (
	get    = []string{http.MethodGet, http.MethodHead}
	post   = []string{http.MethodPost}
	remove = []string{http.MethodDelete}
)

// routes lists the paths. The role selects the callers; the 404 text, the 405 text and
// openapi.json follow from the table.
var routes = []route{
	{"/v1/check", post, decisions, nil, (*API).answer, "decides an attempt and charges it", checkMembers, engine.Attempt},
	{"/v1/checks", post, decisions, nil, (*API).checks, "decides a batch of attempts in their order and charges each that is granted", batchMembers, engine.Attempt},
	{"/v1/peek", post, decisions, nil, (*API).answer, "decides an attempt and changes nothing", peekMembers, engine.Peek},
	{"/v1/count", post, decisions, nil, (*API).count, "counts the units of the last milliseconds in a rolling limit and changes nothing", countMembers, engine.Count},
	{"/v1/record", post, decisions, nil, (*API).answer, "adds units without a decision", recordMembers, engine.Record},
	{"/v1/refund", post, decisions, nil, (*API).refund, "takes units of a grant back", refundMembers, engine.Refund},
	{"/v1/reserve", post, decisions, nil, (*API).reserve, "decides an attempt whose units are settled later", reserveMembers, engine.Attempt},
	{"/v1/settle", post, decisions, nil, (*API).settle, "settles a reservation with the units that were used, by default all", settleMembers, 0},
	{"/v1/release", post, decisions, nil, (*API).settle, "settles a reservation with 0 units", releaseMembers, 0},
	{"/v1/extend", post, decisions, nil, (*API).extend, "renews the life and the hold of a reservation, and takes further units, all or none", extendMembers, 0},
	{"/v1/block", post, operators, nil, (*API).block, "blocks a key for a time, in the limits that count by every dimension or in those that limits names; 0 ends blocks", blockMembers, engine.Block},
	{"/v1/keys/{policy}", remove, operators, nil, (*API).reset, "drops the histories of a key in the limits that count by every dimension, or in those that limit names", 0, engine.Reset},
	{"/gate/{policy}", nil, gates, (*API).serveGate, nil, "decides an attempt for a proxy and charges it", 0, 0},
	{"/v1/reload", post, operators, (*API).serveReload, nil, "reads the policy file again", 0, 0},
	{"/v1/policies", get, decisions, (*API).servePolicies, nil, "lists the policies in force", 0, 0},
	{"/v1/top", get, operators, (*API).serveTop, nil, "lists the keys that are denied most", 0, 0},
	{"/openapi.json", get, decisions, (*API).serveOpenAPI, nil, "returns this document", 0, 0},
	{"/livez", get, probes, (*API).serveLive, nil, "reports that the process answers", 0, 0},
	{"/readyz", get, probes, (*API).serveReady, nil, "reports whether the server takes requests", 0, 0},
	{"/metrics", get, operators, (*API).serveMetrics, nil, "returns metrics in the text format of Prometheus", 0, 0},
}

// Paths with the name of a policy at their end.
const (
	resetPath  = "/v1/keys/"
	gatePath   = "/gate/"
	policyName = "{policy}"
)

var (
	byPath  = map[string]*route{}
	byStart []*route // those with a name at the end
	unknown = &route{role: operators}
	byWord  = map[string]string{} // paths by their last word, such as check, for suggestions
	listed  string                // all routes, for the answer 404
)

func init() {
	method := ""
	var all []string
	for i := range routes {
		to := &routes[i]
		if strings.HasSuffix(to.path, policyName) {
			byStart = append(byStart, to)
		} else {
			byPath[to.path] = to
		}
		byWord[path.Base(strings.TrimSuffix(to.path, policyName))] = to.path
		by, shown := "ANY", to.path
		if len(to.methods) > 0 {
			by = to.methods[0]
		}
		if by != method {
			shown = by + " " + shown
			method = by
		}
		all = append(all, shown)
	}
	listed = strings.Join(all, ", ")
}

// namedRoute returns the route of a path with a name at its end. An unknown path has no handler,
// and the role of operators: so a caller without rights does not learn which paths exist.
func namedRoute(path string) *route {
	for _, to := range byStart {
		if strings.HasPrefix(path, strings.TrimSuffix(to.path, policyName)) {
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
	a := on.API
	if a.Draining.Load() {
		w.Header()["Connection"] = closes
	}
	to := byPath[r.URL.Path]
	if to == nil {
		to = namedRoute(r.URL.Path)
	}
	if to.takes == 0 {
		stopReading(w, r)
	}
	conn, _ := r.Context().Value(connKey{}).(*listen.Conn)
	granted := a.accessOf(r, conn, to.role, on)
	if to.role == gates && !on.Admin && granted == open {
		if !conn.Admit() {
			a.refuseConnection(w)
			return
		}
		a.serveGate(w, r)
		return
	}
	strict(w.Header())
	switch {
	case granted == closed:
		a.unauthorized(w, r, to.role)
		return
	case to.role == probes:
		// The connection of a stranger would occupy a slot.
		if on.Private && !conn.Admitted() && a.mainAccessOf(r, conn, on) == closed {
			w.Header()["Connection"] = closes
		}
	case granted == misled:
		refuse(w, r, http.StatusForbidden, "the Host field names "+answer.Shown(r.Host)+
			", and a page of that site may not call this; use localhost, an IP address, or a name that weir serve was given by --host NAME, or require a token by --token-file FILE")
		return
	case !conn.Admit():
		a.refuseConnection(w)
		return
	}
	serve := to.serve
	switch {
	case to == unknown:
		a.notFound(w, r)
		return
	case to.role == operators && !on.Admin && !on.Shared, to.role != operators && to.role != probes && on.Admin:
		a.notHere(w, r, on)
		return
	case to.path == "/readyz" && a.mainAccessOf(r, conn, on) != open:
		serve = (*API).serveReadyBriefly
	}
	if !slices.Contains(to.methods, r.Method) {
		a.wrongMethod(w, r, to)
		return
	}
	if err := a.origins.Check(r); err != nil {
		refuse(w, r, http.StatusForbidden, "a page of another site may not call this; call it from your own server")
		return
	}
	if to.decide != nil {
		a.serveCall(w, r, to)
		return
	}
	serve(a, w, r)
}

// strict forbids a browser to guess, keep, run or frame an answer. A gate's 204 has
// nothing to guess, run or frame, and is the most frequent answer.
func strict(h http.Header) {
	h["X-Content-Type-Options"], h["Cache-Control"], h["Content-Security-Policy"] = noSniff, noStore, noContent
}

// refuse answers a request that no handler reads.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	stopReading(w, r)
	problemdoc.Write(w, status, detail)
}

// notFound answers a request for an unknown path.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	next := "POST /v1/check decides an attempt, and GET /readyz reports the health."
	switch meant := meantPath(r.URL.Path); {
	case path.Base(r.URL.Path) == "reset":
		next = "DELETE " + resetPath + policyName + "?dimension=value resets a key."
	case meant != "":
		next = "did you mean " + meant + "?"
	}
	refuse(w, r, http.StatusNotFound, "there is no "+answer.Shown(r.URL.Path)+"; "+next+" There are "+listed)
}

// meantPath returns the path that an unknown one probably means, or "". It compares the words of
// the paths: what all paths share makes none of them alike.
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
	refuse(w, r, http.StatusNotFound, answer.Shown(r.URL.Path)+" is not answered here; "+elsewhere)
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
	// opens the calls of operators, as Authorization: Bearer; default: Token, on a shared
	// listener
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
	reason := "the bearer token is missing or wrong; send Authorization: Bearer TOKEN, with the token of this listener"
	switch {
	case as == gates:
		reason = "the gate secret is missing or wrong; send " + GateHeader + ", with the secret of --gate-secret-file"
		a.logGate("authentication required: the header field " + GateHeader + " is missing or wrong")
	case a.GatesOnly && (as != operators || a.Auth.Admin == nil):
		reason = "weir serve has a --gate-secret-file and no token, so only gates are open; " +
			"a --token-file, and for operators an --admin-token-file or --admin-listen, opens other calls with a token, --insecure-listen without"
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
var errNoSlot error = &calls.Problem{Err: calls.ErrBusy,
	Detail: "no decision: too many open connections; nothing was charged, try again in a second, or raise --max-connections"}

// refuseConnection answers with errNoSlot and closes the connection.
func (a *API) refuseConnection(w http.ResponseWriter) {
	a.Capacity.Rejected.Add(1)
	w.Header()["Connection"] = closes
	a.reject(w, errNoSlot)
}
