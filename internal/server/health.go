package server

import "net/http"

// serveLive says that the process answers. It never touches the store: a store
// that is down must not make anybody restart every weir.
func (s *Server) serveLive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte("{\"live\":true}\n"))
}

// readiness is the answer to GET /readyz.
type readiness struct {
	Ready    bool   `json:"ready"`
	Why      string `json:"why,omitempty"` // why not
	Policies int    `json:"policies"`
	Limits   int    `json:"limits"`
	Store    string `json:"store"`
	Source   string `json:"source"`
}

// serveReady says what is loaded: 200, or 503 once the server is draining.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	a := readiness{Ready: true, Policies: len(s.entries), Limits: s.countLimits(),
		Store: s.config.StoreName, Source: s.config.Source}
	status := http.StatusOK
	if s.draining.Load() {
		a.Ready, a.Why, status = false, "draining: the server is about to stop", http.StatusServiceUnavailable
	}
	writeJSON(w, status, marshal(a))
}

func (s *Server) countLimits() int {
	n := 0
	for _, e := range s.entries {
		n += len(e.plan.Limits())
	}
	return n
}
