package server

import (
	"net/http"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/weirhttp"
)

// route is what a path does and by which methods.
type route struct {
	methods []string
	serve   http.HandlerFunc
}

var (
	get  = []string{http.MethodGet, http.MethodHead}
	post = []string{http.MethodPost}
)

// table lists the paths that hold no name. http.ServeMux would do, but it
// answers what it does not know with plain text, and redirects.
func (s *Server) table() map[string]route {
	decide := func(op weir.Op) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { s.serveDecision(w, r, op) }
	}
	return map[string]route{
		"/v1/check":    {post, decide(weir.OpAttempt)},
		"/v1/peek":     {post, decide(weir.OpPeek)},
		"/v1/record":   {post, decide(weir.OpRecord)},
		"/v1/refund":   {post, s.serveRefund},
		"/v1/reserve":  {post, s.serveReserve},
		"/v1/settle":   {post, func(w http.ResponseWriter, r *http.Request) { s.serveSettle(w, r, false) }},
		"/v1/release":  {post, func(w http.ResponseWriter, r *http.Request) { s.serveSettle(w, r, true) }},
		"/json":        {post, s.serveEnvoy},
		"/v1/policies": {get, s.servePolicies},
		"/v1/top":      {get, s.serveTop},
		"/v1/reload":   {post, s.serveReload},
		"/livez":       {get, s.serveLive},
		"/readyz":      {get, s.serveReady},
		"/healthcheck": {get, s.serveHealth},
		"/metrics":     {get, s.metrics.Handler().ServeHTTP},
	}
}

// gatePath begins the paths of gates; the name of a policy follows.
const gatePath = "/gate/"

// Handler returns what the main listener answers. It works without Listen.
func (s *Server) Handler() http.Handler { return s.main.http.Handler }

// serve answers a request to a listener.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, on *face) {
	h := w.Header()
	if on.leaving.Load() {
		h.Set("Connection", "close")
	}
	path := r.URL.Path
	as := roleOf(path)
	if as == gates && on.answers(as) && s.mayCall(r, as, on) {
		if s.admit(w, r) {
			s.serveGate(w, r, path[len(gatePath):]) // any method: proxies repeat the client's
		}
		return
	}
	strict(h)
	if !s.mayCall(r, as, on) {
		stopReading(w, r)
		s.unauthorized(w, as)
		return
	}
	if as != probes && s.misled(r, as, on) {
		stopReading(w, r)
		s.refuseName(w, r.Host)
		return
	}
	if as == probes {
		on.closeAfterProbe(w, r, s)
	} else if !s.admit(w, r) {
		return
	}
	to, ok := s.routes[path]
	if path == "/readyz" && (!s.knows(r, on) || s.misled(r, operates, on)) {
		to.serve = s.serveReadyToStrangers
	}
	if name, keys := strings.CutPrefix(path, "/v1/keys/"); keys {
		ok = true
		to = route{[]string{http.MethodDelete}, func(w http.ResponseWriter, r *http.Request) { s.serveReset(w, r, name) }}
	}
	switch {
	case !on.answers(as) && (ok || as == gates):
		stopReading(w, r)
		weirhttp.WriteError(w, http.StatusNotFound, answer.Shown(path)+" is not answered here; "+on.elsewhere())
		return
	case !ok:
		stopReading(w, r)
		weirhttp.WriteError(w, http.StatusNotFound, "there is no "+answer.Shown(path)+
			"; there are POST /v1/check, /v1/peek, /v1/record, /v1/refund, /v1/reserve, /v1/settle, /v1/release, DELETE /v1/keys/{policy}, ANY /gate/{policy}, POST /json, /v1/reload, GET /v1/policies, /v1/top, /livez, /readyz, /healthcheck, /metrics")
		return
	}
	s.dispatch(w, r, to)
}

// strict forbids a browser to guess, keep, run or frame an answer. A gate's 204 has
// nothing to guess, run or frame, and is asked for more often than anything else.
func strict(h http.Header) {
	h["X-Content-Type-Options"], h["Cache-Control"], h["Content-Security-Policy"] = noSniff, noStore, noContent
}

// dispatch calls the route if the method is one of its own and no page of
// another site made the browser send the request.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, to route) {
	for _, m := range to.methods {
		if r.Method != m {
			continue
		}
		if err := s.origins.Check(r); err != nil {
			stopReading(w, r)
			weirhttp.WriteError(w, http.StatusForbidden, "a page of another site may not call this; call it from your own server")
			return
		}
		to.serve(w, r)
		return
	}
	stopReading(w, r)
	allow := strings.Join(to.methods, ", ")
	w.Header().Set("Allow", allow)
	weirhttp.WriteError(w, http.StatusMethodNotAllowed, r.URL.Path+" takes "+allow+", not "+answer.Shown(r.Method))
}
