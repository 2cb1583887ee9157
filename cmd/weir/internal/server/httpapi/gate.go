package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/answer"
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
		err = a.within(r, s, (*API).pass)
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
	s.policy = nameIn(r.URL.Path, "/gate/{policy}")
	if s.to, err = find(a.Policies(), s.policy, calls.ErrMissing); err != nil {
		return 0, err
	}
	from := query{header: r.Header, key: s.key}
	err = from.parse(r.URL.RawQuery, gateSettings)
	s.key = from.key
	if err != nil {
		return 0, err
	}
	if s.n, err = from.units(); err != nil {
		return 0, err
	}
	if denial, err = from.deny(); err != nil {
		return 0, err
	}
	if s.target, err = s.to.Target(s.key); err == nil && a.GateID != "" {
		s.id, _, err = idIn(r.Header, a.GateID)
	}
	return denial, err
}

// pass decides a gate call.
func (a *API) pass(r *http.Request, s *scratch) error {
	return a.charge(r, observe.Gate, weir.OpAttempt, s)
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
	made := weirhttp.Outcome(answerOf(&s.request, &s.outcome))
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
	prefix := "policy " + strconv.Quote(s.policy)
	var p *calls.Problem
	if errors.As(err, &p) {
		if p.Log != "" {
			return prefix + ": " + p.Log
		}
		return prefix + ": " + p.Detail
	}
	for _, name := range s.to.Dimensions() {
		if _, ok := s.key.Get(name); !ok {
			return prefix + " needs a value for " + strconv.Quote(name)
		}
	}
	for _, pair := range s.key {
		switch {
		case len(pair.Value) > weir.MaxValueBytes:
			return prefix + ": the value of " + answer.Shown(pair.Name) + " is longer than " + strconv.Itoa(weir.MaxValueBytes) + " bytes"
		case pair.Name != s.to.PlanBy && !slices.Contains(s.to.Dimensions(), pair.Name):
			return prefix + " has no dimension " + answer.Shown(pair.Name)
		}
	}
	return prefix + ": the key is not valid"
}
