package httpapi

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/weirhttp"
)

// serveGate answers a proxy: 204, or a denial with 429 (403 with deny=403) and a problem
// document. Header fields hold the state of the limits. The query names the key, and n the
// units of the request.
func (a *API) serveGate(w http.ResponseWriter, r *http.Request) {
	w.Header()["Cache-Control"] = noStore
	s := scratches.Get().(*scratch)
	defer s.release()
	denial, err := a.parseGate(r, s)
	if err == nil {
		err = a.Capacity.Do(func() error { return a.decide(s) })
	}
	if err != nil {
		if calls.IsBadInput(err) {
			a.logGate(s.reasonFor(err))
		}
		a.reject(w, err)
		return
	}
	a.writeGate(w, s, denial)
}

// parseGate reads the path, the query and the header of a gate call. It returns the status
// of a denial.
func (a *API) parseGate(r *http.Request, s *scratch) (denial int, err error) {
	q := query{header: r.Header, reserved: gateSettings}
	if err = a.parseURL(r, s, gatePath, &q); err != nil {
		return 0, err
	}
	s.Op, s.Via = weir.OpAttempt, viaGate
	if a.Tracing {
		s.Via = traced(r, observe.Gate)
	}
	if s.N, err = q.units(); err != nil {
		return 0, err
	}
	if denial, err = q.deny(); err == nil && a.GateID != "" {
		s.ID, _, err = idIn(r.Header, a.GateID)
	}
	return denial, err
}

// writeGate writes the decision of a gate call.
func (a *API) writeGate(w http.ResponseWriter, s *scratch, denial int) {
	h, o := w.Header(), &s.outcome
	if o.Applied.Shadow { // a client that sees a limit would keep to it
		would := "denied"
		if o.Applied.Would.Allowed {
			would = "allowed"
		}
		h["Weir-Shadow"] = []string{would}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	made := weirhttp.Outcome(answerOf(&s.Request, &s.outcome))
	h["RateLimit-Policy"] = fieldOf(s.to, o) // spelled as in the draft; Go's form would be Ratelimit
	if v := made.RateLimit(); v != "" {
		h["RateLimit"] = []string{v}
	}
	if made.Decision.Allowed {
		if o.Applied.Warnings != nil {
			h["Weir-Warning"] = []string{strings.Join(o.Applied.Warnings, ", ")}
		}
		if made.Decision.Granted < made.N {
			h["Weir-Granted"] = []string{strconv.FormatInt(made.Decision.Granted, 10)}
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	strict(h)
	if seconds, ok := made.RetryAfter(); ok {
		h["Retry-After"] = []string{strconv.FormatInt(seconds, 10)}
	}
	made.WriteProblem(w, denial)
}

// fieldOf returns the RateLimit-Policy field of the numbers that made an outcome.
func fieldOf(r *enforce.Rule, o *enforce.Outcome) []string {
	compiled := o.Limiter.Compiled()
	if of := calls.Of(r); of != nil && compiled == r.Compiled {
		return of.Field
	}
	return []string{weirhttp.PolicyField(compiled)}
}

// logGate logs a rejected gate call: a proxy hides the answer from its operator.
func (a *API) logGate(reason string) { a.GateLog.Line(slog.LevelWarn, "gate: "+reason) }

// reasonFor returns the reason for which a gate call was rejected, without values of its
// key.
func (s *scratch) reasonFor(err error) string {
	if s.to == nil {
		return err.Error()
	}
	prefix, reason := "policy "+strconv.Quote(s.policy), "the request is not valid"
	var p *calls.Problem
	var bad *engine.InputError
	switch {
	case errors.As(err, &p):
		reason = cmp.Or(p.Log, p.Detail)
	case errors.As(err, &bad) && bad.Field == "key": // it names dimensions and no value
		if reason = bad.Problem; strings.HasPrefix(reason, prefix) {
			return reason
		}
	}
	return prefix + ": " + reason
}
