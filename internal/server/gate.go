package server

import (
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/weirhttp"
)

// serveGate answers a proxy that asks whether a request may pass: 204, or 429
// (403 with deny=403) and a problem document. Both say with header fields what
// is left. The query names the key, and with n how many units the request costs.
func (s *Server) serveGate(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h["Cache-Control"] = noStore
	e, err := s.find(name, http.StatusNotFound)
	if err != nil {
		s.refuse(w, err)
		return
	}
	d := desks.Get().(*desk)
	defer desks.Put(d)
	if !s.room.enter() {
		s.refuse(w, errBusy)
		return
	}
	o, denial, err := s.gate(e, r, d)
	s.room.leave()
	if err != nil {
		s.refuse(w, err)
		return
	}
	if o.shadow != "" { // who is told of a limit would keep to it
		h["Weir-Shadow"] = []string{o.shadow}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	// Spelled as the draft spells them: Go's form would be Ratelimit.
	h["RateLimit-Policy"] = o.field
	if v := o.RateLimit(); v != "" {
		h["RateLimit"] = []string{v}
	}
	if o.Decision.Allowed {
		if o.Decision.Granted < o.N {
			h["Weir-Granted"] = []string{strconv.FormatInt(o.Decision.Granted, 10)}
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	strict(h)
	if seconds, ok := o.RetryAfter(); ok {
		h["Retry-After"] = []string{strconv.FormatInt(seconds, 10)}
	}
	o.WriteProblem(w, denial)
}

// gated is what a gate tells.
type gated struct {
	weirhttp.Outcome
	field  []string // the RateLimit-Policy field
	shadow string   // allowed or denied: what a shadow policy would have done; "" of any other
}

// gate decides and returns the status for a denial.
func (s *Server) gate(e *entry, r *http.Request, on *desk) (o gated, denial int, err error) {
	q := query{header: r.Header}
	if err = q.parse(r.URL.RawQuery, gateSettings); err != nil {
		return o, 0, err
	}
	asked := question{entry: e}
	if asked.n, err = q.units(); err != nil {
		return o, 0, err
	}
	if denial, err = q.deny(); err != nil {
		return o, 0, err
	}
	if asked.Target, err = q.key.subject(e.Rule); err != nil {
		return o, 0, err
	}
	if field := s.config.GateID; field != "" {
		if asked.id, _, err = idIn(r.Header, field); err != nil {
			return o, 0, err
		}
	}
	made, err := s.decide(r, observe.Gate, &asked, weir.OpAttempt, on)
	if err != nil {
		return o, 0, err
	}
	o = gated{Outcome: weirhttp.Outcome(asked.answer(weir.OpAttempt, &made, on)), field: e.fieldOf(made.Variation)}
	if made.Applied.Shadow {
		o.shadow = "denied"
		if made.Applied.Would.Allowed {
			o.shadow = "allowed"
		}
	}
	return o, denial, nil
}
