package httpapi

import "net/http"

// EnvoyStatus is the Envoy configuration in force; nil if there is none.
type EnvoyStatus struct {
	Source  string `json:"source"`
	Domains int    `json:"domains"`
	Rules   int    `json:"rules"`
	Failed  bool   `json:"last_reload_failed,omitempty"`
}

// liveness is the answer to GET /livez.
type liveness struct {
	Live bool `json:"live"`
}

// serveLive reports that the process answers. It does not touch the store: an outage
// must not restart every weir.
func (a *API) serveLive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, marshal(liveness{true}))
}

// Readiness is the answer to GET /readyz. A caller without credentials gets Ready only.
type Readiness struct {
	Ready      bool         `json:"ready"`
	Why        string       `json:"why,omitempty" jsonschema:"the reason if ready is false"`
	Policies   int          `json:"policies" jsonschema:"number of policies"`
	Limits     int          `json:"limits" jsonschema:"number of limits of all policies"`
	Store      string       `json:"store"`
	StoreDown  string       `json:"store_down,omitempty" jsonschema:"the reason why the store is unavailable"`
	Source     string       `json:"source" jsonschema:"the policy file"`
	Generation int64        `json:"generation" jsonschema:"of the policies: 1 at the start, one more with every reload"`
	Since      string       `json:"since" jsonschema:"the instant at which these policies came into force, RFC 3339"`
	Reload     *Reload      `json:"last_reload,omitempty"`
	Envoy      *EnvoyStatus `json:"envoy,omitempty" jsonschema:"the configuration of Envoy's rate limit service"`
}

// Reload is the last reload.
type Reload struct {
	OK    bool   `json:"ok"`
	At    string `json:"at" jsonschema:"RFC 3339"`
	Error string `json:"error,omitempty"`
}

// serveReady reports the policies in force: 200, or 503 while the server drains. A
// failed reload does not make it 503: the older policies are in force, and taking every
// server away would be worse. Neither does an outage of the store: when-store-is-down
// decides then.
func (a *API) serveReady(w http.ResponseWriter, _ *http.Request) {
	ready, status := a.Status(), http.StatusOK
	if !ready.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, marshal(ready))
}

// serveReadyBriefly reports only whether the server is ready: probes of a platform have
// no token.
func (a *API) serveReadyBriefly(w http.ResponseWriter, _ *http.Request) {
	if !a.Status().Ready {
		writeJSON(w, http.StatusServiceUnavailable, []byte("{\"ready\":false}\n"))
		return
	}
	writeJSON(w, http.StatusOK, []byte("{\"ready\":true}\n"))
}

func (a *API) serveMetrics(w http.ResponseWriter, r *http.Request) { a.Metrics.ServeHTTP(w, r) }
