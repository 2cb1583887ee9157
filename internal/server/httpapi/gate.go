package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/serving"
	"github.com/weirlimit/weir/weirhttp"
)

// gateRequest is a parsed gate call.
type gateRequest struct {
	request
	denial int // the status of a denial
}

// serveGate answers a proxy: 204, or a denial with 429 (403 with deny=403) and a problem
// document. Header fields of both hold the state of the limits. The query names the key,
// and n the units of the request.
func (a *API) serveGate(w http.ResponseWriter, r *http.Request) {
	w.Header()["Cache-Control"] = noStore
	s := newScratch()
	defer s.release()
	q, err := a.parseGate(r)
	var o enforce.Outcome
	if err == nil {
		o, err = a.pass(r, &q.request, s)
	}
	if err != nil {
		if serving.IsBadInput(err) {
			a.logGate(reasonFor(&q.request, err))
		}
		a.refuse(w, err)
		return
	}
	a.writeGate(w, &q, &o, s)
}

// parseGate reads the path, the query and the header of a gate call.
func (a *API) parseGate(r *http.Request) (q gateRequest, err error) {
	q.policy = nameIn(r.URL.Path, "/gate/{policy}")
	if q.to, err = a.Policies().Find(q.policy, http.StatusNotFound); err != nil {
		return q, err
	}
	from := query{header: r.Header}
	err = from.parse(r.URL.RawQuery, gateSettings)
	q.key = from.key
	if err != nil {
		return q, err
	}
	if q.n, err = from.units(); err != nil {
		return q, err
	}
	if q.denial, err = from.deny(); err != nil {
		return q, err
	}
	if q.target, err = q.key.target(q.to); err == nil && a.GateID != "" {
		q.id, _, err = idIn(r.Header, a.GateID)
	}
	return q, err
}

// pass decides a gate call.
func (a *API) pass(r *http.Request, q *request, s *scratch) (enforce.Outcome, error) {
	if err := a.Capacity.Enter(); err != nil {
		return enforce.Outcome{}, err
	}
	defer a.Capacity.Leave()
	return a.decide(r, observe.Gate, q, weir.OpAttempt, s)
}

// writeGate writes the decision of a gate call.
func (a *API) writeGate(w http.ResponseWriter, q *gateRequest, o *enforce.Outcome, s *scratch) {
	h := w.Header()
	if o.Applied.Shadow { // a client that sees a limit would keep to it
		would := "denied"
		if o.Applied.Would.Allowed {
			would = "allowed"
		}
		h["Weir-Shadow"] = []string{would}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	made := weirhttp.Outcome(q.answer(weir.OpAttempt, o, s))
	// Spelled as in the draft; Go's form would be Ratelimit.
	h["RateLimit-Policy"] = q.to.Field(o.Variation)
	if v := made.RateLimit(); v != "" {
		h["RateLimit"] = []string{v}
	}
	if made.Decision.Allowed {
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
	made.WriteProblem(w, q.denial)
}

// logGate logs a rejected gate call: a proxy hides the answer from its operator.
func (a *API) logGate(reason string) { a.GateLog.Line(slog.LevelWarn, "gate: "+reason) }

// reasonFor returns the reason for which a gate call was rejected, without values of its
// key.
func reasonFor(q *request, err error) string {
	if q.to == nil {
		return err.Error()
	}
	prefix := "policy " + strconv.Quote(q.policy)
	var p *serving.Problem
	if errors.As(err, &p) {
		if p.Log != "" {
			return prefix + ": " + p.Log
		}
		return prefix + ": " + p.Detail
	}
	for _, name := range q.to.Dimensions() {
		if _, ok := q.key.value(name); !ok {
			return prefix + " needs a value for " + strconv.Quote(name)
		}
	}
	for _, pair := range q.key.all() {
		switch {
		case len(pair.Value) > weir.MaxValueBytes:
			return prefix + ": the value of " + answer.Shown(pair.Name) + " is longer than " + strconv.Itoa(weir.MaxValueBytes) + " bytes"
		case pair.Name != q.to.TierBy && !slices.Contains(q.to.Dimensions(), pair.Name):
			return prefix + " has no dimension " + answer.Shown(pair.Name)
		}
	}
	return prefix + ": the key is not valid"
}
