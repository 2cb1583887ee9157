package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// serveCall answers a call with a body: it parses the body, decides and writes.
func (a *API) serveCall(w http.ResponseWriter, r *http.Request, to *route) {
	s := scratches.Get().(*scratch)
	defer s.release()
	err := a.parse(w, r, s, to.takes)
	if err == nil {
		err = a.within(r, s, to.decide)
	}
	if err != nil {
		a.reject(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.answer)
}

// within decides a parsed call within the capacity of the server. The place is free again
// before the answer is written, so slow clients cannot fill the capacity.
func (a *API) within(r *http.Request, s *scratch, decide func(*API, *http.Request, *scratch) error) error {
	if err := a.Capacity.Enter(); err != nil {
		return err
	}
	defer a.Capacity.Leave()
	return decide(a, r, s)
}

func (a *API) check(r *http.Request, s *scratch) error { return a.answer(r, weir.OpAttempt, s) }

func (a *API) peek(r *http.Request, s *scratch) error { return a.answer(r, weir.OpPeek, s) }

func (a *API) record(r *http.Request, s *scratch) error { return a.answer(r, weir.OpRecord, s) }

// answer decides a call and writes the decision to s.answer.
func (a *API) answer(r *http.Request, op weir.Op, s *scratch) error {
	err := a.charge(r, observe.HTTP, op, s)
	if err == nil {
		made := answerOf(&s.request, &s.outcome)
		s.answer = append(made.AppendJSON(s.answer[:0], &s.outcome.Applied), '\n')
	}
	return err
}

// charge decides a call by its policy; s.outcome holds the decision. A client that has
// disconnected is charged all the same: otherwise a disconnect would be a way around a
// limit. So the engine does not get the context of the request.
func (a *API) charge(r *http.Request, from observe.Protocol, op weir.Op, s *scratch) (err error) {
	s.request = enforce.Request{Target: s.target, Op: op, N: s.n, States: s.states[:len(s.to.Compiled.Limits)], ID: s.id, Via: a.via(r, from)}
	s.outcome, err = s.to.Decide(background, &s.request)
	if err == nil && s.outcome.Err != nil { // a shadow that could not decide
		a.Errors.NoDecision(s.outcome.Err)
	}
	return err
}

// background is the context of every call: that of a request ends with a disconnect.
var background = context.Background()

// How requests come in without tracing.
var viaHTTP, viaGate = &calls.Via{Protocol: observe.HTTP}, &calls.Via{Protocol: observe.Gate}

// via returns how a request came in, with its trace while tracing is on.
func (a *API) via(r *http.Request, from observe.Protocol) *calls.Via {
	switch {
	case a.Tracing:
		return &calls.Via{Protocol: from, Trace: r.Header.Get("Traceparent")}
	case from == observe.Gate:
		return viaGate
	}
	return viaHTTP
}

// answerOf returns the decision of a request with the state of its limits.
func answerOf(r *enforce.Request, o *enforce.Outcome) answer.Answer {
	return answer.Answer{Compiled: o.Limiter.Compiled(), Key: r.Key, Op: r.Op, N: r.N, Decision: o.Decision,
		States: r.States, Units: o.Units, Blocked: o.Applied.Blocked}
}

// refund is the answer to POST /v1/refund.
type refund struct {
	Policy   string `json:"policy"`
	Refunded int64  `json:"refunded" jsonschema:"units that were taken back; less than n if fewer still count"`
}

func (a *API) refund(r *http.Request, s *scratch) error {
	o, err := s.to.Decide(background, &enforce.Request{Target: s.target, Op: weir.OpRefund, From: time.UnixMicro(s.granted), N: s.n, ID: s.id, Via: viaHTTP})
	s.answer = marshal(refund{s.to.Name, o.Granted})
	return err
}

// count is the answer to POST /v1/count.
type count struct {
	Count  int64             `json:"count" jsonschema:"units that the limit recorded in the span, less those refunded"`
	LastMS int64             `json:"last_ms" jsonschema:"the span, milliseconds"`
	Policy string            `json:"policy"`
	Limit  string            `json:"limit" jsonschema:"the limit that was counted"`
	Key    map[string]string `json:"key" jsonschema:"the dimensions that the limit counts by"`
}

func (a *API) count(r *http.Request, s *scratch) error {
	n, limit, err := calls.Count(background, s.to, viaHTTP, s.target, s.limit, s.last)
	if err != nil {
		return err
	}
	key := map[string]string{}
	for _, i := range limit.By {
		key[s.to.Dimensions()[i]] = s.target.Key.Value(i)
	}
	s.answer = marshal(count{n, s.last, s.to.Name, limit.Name, key})
	return nil
}

// serveReset drops the histories of a key, also those that it shares with other keys.
func (a *API) serveReset(w http.ResponseWriter, r *http.Request) {
	if err := a.reset(r, nameIn(r.URL.Path, "/v1/keys/{policy}")); err != nil {
		a.reject(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *API) reset(r *http.Request, name string) error {
	to, err := find(a.Policies(), name, calls.ErrMissing)
	if err != nil {
		return err
	}
	var q query
	if err := q.parse(r.URL.RawQuery, nil); err != nil {
		return err
	}
	target, err := to.Target(q.key)
	if err != nil {
		return err
	}
	if err := a.Capacity.Enter(); err != nil {
		return err
	}
	defer a.Capacity.Leave()
	_, err = to.Decide(background, &enforce.Request{Target: target, Op: engine.Reset, Via: viaHTTP})
	return err
}
