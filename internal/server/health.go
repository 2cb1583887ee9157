package server

import (
	"net/http"
	"time"
)

// serveLive says that the process answers. It never touches the store: a store
// that is down must not make anybody restart every weir.
func (s *Server) serveLive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte("{\"live\":true}\n"))
}

// readiness is the answer to GET /readyz.
type readiness struct {
	Ready      bool        `json:"ready"`
	Why        string      `json:"why,omitempty"` // why not
	Policies   int         `json:"policies"`
	Limits     int         `json:"limits"`
	Store      string      `json:"store"`
	StoreDown  string      `json:"store_down,omitempty"` // why it cannot be asked
	Source     string      `json:"source"`
	Generation int64       `json:"generation"` // of the policies; one more with every reload
	Since      string      `json:"since"`      // in force
	Reload     *lastReload `json:"last_reload,omitempty"`
	Envoy      *envoyShown `json:"envoy,omitempty"` // the configuration of the rate limit service
}

// lastReload is the last attempt to put other policies in force.
type lastReload struct {
	OK    bool   `json:"ok"`
	At    string `json:"at"`
	Error string `json:"error,omitempty"`
}

// serveReady says what is loaded: 200, or 503 once the server is draining. A
// reload that failed does not make it 503: the policies before it are in force,
// and taking every server away would be worse. Nor does a store that is down: the
// server answers by when-store-is-down.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	set := s.serving.Load()
	a := readiness{Ready: true, Policies: len(set.entries), Limits: set.limits,
		Store: s.config.StoreName, Source: set.source,
		Generation: set.generation, Since: stamp(set.since), Reload: s.lastReload(), Envoy: s.showEnvoy()}
	if err := s.storeDown(); err != nil {
		a.StoreDown = err.Error()
	}
	status := http.StatusOK
	if s.draining.Load() {
		a.Ready, a.Why, status = false, "draining: the server is about to stop", http.StatusServiceUnavailable
	}
	writeJSON(w, status, marshal(a))
}

// serveReadyToStrangers says whether the server is ready and no more: probes of a
// platform show no token.
func (s *Server) serveReadyToStrangers(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		writeJSON(w, http.StatusServiceUnavailable, []byte("{\"ready\":false}\n"))
		return
	}
	writeJSON(w, http.StatusOK, []byte("{\"ready\":true}\n"))
}

// serveHealth is /readyz in the words of Envoy's reference rate limit service, so that
// probes made for that need no other path: 200 with OK, or 500 with nothing.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("OK"))
}

// lastReload returns nil before the first.
func (s *Server) lastReload() *lastReload {
	r := s.reloads.Load()
	if r.last.IsZero() {
		return nil
	}
	l := &lastReload{OK: r.err == nil, At: stamp(r.last)}
	if r.err != nil {
		l.Error = firstLine(r.err)
	}
	return l
}

// stamp writes an instant for people and machines.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
