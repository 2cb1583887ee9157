package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/weirhttp"
)

// route is one path of the interface.
type route struct {
	path    string   // with {policy} at its end, the rest of the path is a name
	methods []string // nil = any
	role    role
	serve   func(*API, http.ResponseWriter, *http.Request)
	decide  func(*API, *http.Request, *scratch) error // instead of serve, for a parsed body
	summary string                                    // for openapi.json
	takes   member                                    // members of the body
}

var (
	get    = []string{http.MethodGet, http.MethodHead}
	post   = []string{http.MethodPost}
	remove = []string{http.MethodDelete}
)

// routes lists the paths. The role selects the callers; the 404 text, the 405 text and
// openapi.json follow from the table.
var routes = []route{
	{"/v1/check", post, decisions, nil, (*API).check, "decides an attempt and charges it", decisionMembers},
	{"/v1/checks", post, decisions, nil, (*API).checks, "decides a batch of attempts in their order and charges each that is granted", batchMembers},
	{"/v1/peek", post, decisions, nil, (*API).peek, "decides an attempt and changes nothing", peekMembers},
	{"/v1/count", post, decisions, nil, (*API).count, "counts the units of the last milliseconds in a rolling limit and changes nothing", countMembers},
	{"/v1/record", post, decisions, nil, (*API).record, "adds units without a decision", decisionMembers},
	{"/v1/refund", post, decisions, nil, (*API).refund, "takes units of a grant back", refundMembers},
	{"/v1/reserve", post, decisions, nil, (*API).reserve, "decides an attempt whose units are settled later", reserveMembers},
	{"/v1/settle", post, decisions, nil, (*API).settle, "settles a reservation with the units that were used, by default all", settleMembers},
	{"/v1/release", post, decisions, nil, (*API).settle, "settles a reservation with 0 units", releaseMembers},
	{"/v1/extend", post, decisions, nil, (*API).extend, "renews the hold of a reservation", releaseMembers},
	{"/v1/keys/{policy}", remove, operators, (*API).serveReset, nil, "drops the histories of a key", 0},
	{"/gate/{policy}", nil, gates, (*API).serveGate, nil, "decides an attempt for a proxy and charges it", 0},
	{"/v1/reload", post, operators, (*API).serveReload, nil, "reads the policy file again", 0},
	{"/v1/policies", get, decisions, (*API).servePolicies, nil, "lists the policies in force", 0},
	{"/v1/top", get, operators, (*API).serveTop, nil, "lists the keys that are denied most", 0},
	{"/openapi.json", get, decisions, (*API).serveOpenAPI, nil, "returns this document", 0},
	{"/livez", get, probes, (*API).serveLive, nil, "reports that the process answers", 0},
	{"/readyz", get, probes, (*API).serveReady, nil, "reports whether the server takes requests", 0},
	{"/metrics", get, operators, (*API).serveMetrics, nil, "returns metrics in the text format of Prometheus", 0},
}

const policyName = "{policy}"

var (
	byPath  = map[string]*route{}
	byStart []*route // those with a name at the end
	unknown = &route{role: operators}
	paths   []string // for suggestions
	listed  string   // all routes, for the answer 404
)

func init() {
	method := ""
	var b strings.Builder
	for i := range routes {
		to := &routes[i]
		if strings.HasSuffix(to.path, policyName) {
			byStart = append(byStart, to)
		} else {
			byPath[to.path] = to
			paths = append(paths, to.path)
		}
		by := "ANY"
		if len(to.methods) > 0 {
			by = to.methods[0]
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if by != method {
			b.WriteString(by + " ")
			method = by
		}
		b.WriteString(to.path)
	}
	listed = b.String()
}

// routeOf returns the route of a path. An unknown path has no handler, and the role of
// operators: so a caller without rights does not learn which paths exist.
func routeOf(path string) *route {
	if to := byPath[path]; to != nil {
		return to
	}
	for _, to := range byStart {
		if strings.HasPrefix(path, strings.TrimSuffix(to.path, policyName)) {
			return to
		}
	}
	return unknown
}

// nameIn returns the policy's name at the end of a path.
func nameIn(path, pattern string) string {
	return strings.TrimPrefix(path, strings.TrimSuffix(pattern, policyName))
}

// Endpoint is one listener, as far as the handlers need it.
type Endpoint struct {
	Admin   bool          // the listener for operators
	Shared  bool          // the main listener, which also serves operators
	Local   bool          // only this machine can connect
	Clients bool          // client certificates authenticate
	Private bool          // callers must authenticate, except for probes
	Names   *listen.Names // that Host may hold in requests without authentication; nil = any
}

// serves reports whether calls of a role belong to this listener.
func (on *Endpoint) serves(as role) bool {
	if as == operators {
		return on.Admin || on.Shared
	}
	return as == probes || !on.Admin
}

// Handler returns the handler of a listener.
func (a *API) Handler(on *Endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, on) })
}

// serve authenticates a request, admits its connection and calls the handler of its
// path. http.ServeMux is no alternative: it answers unknown paths with plain text, and
// redirects.
func (a *API) serve(w http.ResponseWriter, r *http.Request, on *Endpoint) {
	if a.Draining.Load() {
		w.Header()["Connection"] = closes
	}
	to := routeOf(r.URL.Path)
	if to.role == gates && on.serves(gates) && a.mayCall(r, gates, on) {
		if !connOf(r).Admit() {
			a.refuseConnection(w)
			return
		}
		a.serveGate(w, r)
		return
	}
	strict(w.Header())
	switch {
	case !a.mayCall(r, to.role, on):
		a.unauthorized(w, r, to.role)
		return
	case to.role == probes:
		a.closeAfterProbe(w, r, on)
	case a.isDNSRebinding(r, to.role, on):
		a.rejectName(w, r)
		return
	case !connOf(r).Admit():
		a.refuseConnection(w)
		return
	}
	serve := to.serve
	switch {
	case to == unknown:
		a.notFound(w, r)
		return
	case !on.serves(to.role):
		a.notHere(w, r, on)
		return
	case to.path == "/readyz" && (!a.authenticated(r, on) || a.isDNSRebinding(r, operators, on)):
		serve = (*API).serveReadyBriefly
	}
	if !slices.Contains(to.methods, r.Method) {
		a.wrongMethod(w, r, to)
		return
	}
	if err := a.origins.Check(r); err != nil {
		stopReading(w, r)
		weirhttp.WriteError(w, http.StatusForbidden, "a page of another site may not call this; call it from your own server")
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

// notFound answers a request for an unknown path.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	stopReading(w, r)
	detail := "there is no " + answer.Shown(r.URL.Path) + "; there are " + listed
	if near := nearest.Name(r.URL.Path, paths); near != "" {
		detail = "there is no " + answer.Shown(r.URL.Path) + "; did you mean " + near + "? There are " + listed
	}
	weirhttp.WriteError(w, http.StatusNotFound, detail)
}

// notHere answers a request for a path of another listener.
func (a *API) notHere(w http.ResponseWriter, r *http.Request, on *Endpoint) {
	stopReading(w, r)
	elsewhere := "what is for operators is answered by the listener of --admin-listen"
	if on.Admin {
		elsewhere = "decisions and gates are answered by the listener of --listen"
	}
	weirhttp.WriteError(w, http.StatusNotFound, answer.Shown(r.URL.Path)+" is not answered here; "+elsewhere)
}

// wrongMethod answers a request by a method that the path does not take.
func (a *API) wrongMethod(w http.ResponseWriter, r *http.Request, to *route) {
	stopReading(w, r)
	allow := strings.Join(to.methods, ", ")
	w.Header()["Allow"] = []string{allow}
	weirhttp.WriteError(w, http.StatusMethodNotAllowed, r.URL.Path+" takes "+allow+", not "+answer.Shown(r.Method))
}
