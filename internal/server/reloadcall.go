package server

import (
	"net/http"

	"github.com/weirlimit/weir/weirhttp"
)

// reloaded is the answer to POST /v1/reload.
type reloaded struct {
	Generation int64 `json:"generation"`
	Policies   int   `json:"policies"`
	Limits     int   `json:"limits"`
}

// serveReload reads the policies again, as SIGHUP does, and waits for what becomes
// of it: 200, or 422 and what is wrong with the file, while the policies before it
// stay.
func (s *Server) serveReload(w http.ResponseWriter, _ *http.Request) {
	if s.config.Reread == nil {
		weirhttp.WriteError(w, http.StatusConflict, "there is no file of policies to read again; start weir serve with --policies FILE")
		return
	}
	if err := s.config.Reread(); err != nil {
		weirhttp.WriteError(w, http.StatusUnprocessableEntity, "the policies in force stay: "+err.Error())
		return
	}
	set := s.serving.Load()
	writeJSON(w, http.StatusOK, marshal(reloaded{set.generation, len(set.entries), set.limits}))
}
