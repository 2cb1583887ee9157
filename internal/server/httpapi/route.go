package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/weirhttp"
)

// Endpoint is one listener, as far as the handlers need it.
type Endpoint struct {
	Admin    bool          // the listener for operators
	Shared   bool          // the main listener, which also serves operators
	Local    bool          // only this machine can connect
	Clients  bool          // client certificates authenticate
	Private  bool          // callers must authenticate, except for probes
	Names    *listen.Names // that Host may hold in requests without authentication; nil = any
	Draining atomic.Bool   // every answer closes its connection
}

// serves reports whether calls of a role belong to this listener.
func (on *Endpoint) serves(as role) bool {
	switch as {
	case probes:
		return true
	case operators:
		return on.Admin || on.Shared
	}
	return !on.Admin
}

// Handler returns the handler of a listener.
func (a *API) Handler(on *Endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, on) })
}

// serve authenticates a request, admits its connection and calls the handler of its
// path. http.ServeMux is no alternative: it answers unknown paths with plain text, and
// redirects.
func (a *API) serve(w http.ResponseWriter, r *http.Request, on *Endpoint) {
	if on.Draining.Load() {
		w.Header()["Connection"] = closes
	}
	to := routeOf(r.URL.Path)
	if to.role == gates && on.serves(gates) && a.mayCall(r, gates, on) {
		if a.admit(w, r) {
			a.serveGate(w, r)
		}
		return
	}
	strict(w.Header())
	switch {
	case !a.mayCall(r, to.role, on):
		a.unauthorized(w, r, to.role)
		return
	case to.role == probes:
		a.closeAfterProbe(w, r, on)
	case a.misled(r, to.role, on):
		a.refuseName(w, r)
		return
	case !a.admit(w, r):
		return
	}
	serve := to.serve
	switch {
	case serve == nil:
		a.notFound(w, r)
		return
	case !on.serves(to.role):
		a.notHere(w, r, on)
		return
	case to.path == "/readyz" && (!a.authenticated(r, on) || a.misled(r, operators, on)):
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
