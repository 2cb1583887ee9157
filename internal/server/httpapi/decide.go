package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/observe"
)

func (a *API) serveCheck(w http.ResponseWriter, r *http.Request) {
	a.serveDecision(w, r, weir.OpAttempt, decisionMembers)
}

func (a *API) servePeek(w http.ResponseWriter, r *http.Request) {
	a.serveDecision(w, r, weir.OpPeek, peekMembers)
}

func (a *API) serveRecord(w http.ResponseWriter, r *http.Request) {
	a.serveDecision(w, r, weir.OpRecord, decisionMembers)
}

// serveDecision answers a check, a peek or a record.
func (a *API) serveDecision(w http.ResponseWriter, r *http.Request, op weir.Op, takes member) {
	s := newScratch()
	defer s.release()
	q, err := a.parse(w, r, s, takes)
	if err == nil {
		err = a.check(r, &q, op, s)
	}
	a.reply(w, s, err)
}

// check decides q and writes the decision to s.answer.
func (a *API) check(r *http.Request, q *request, op weir.Op, s *scratch) error {
	if err := a.Capacity.Enter(); err != nil {
		return err
	}
	defer a.Capacity.Leave()
	o, err := a.decide(r, observe.HTTP, q, op, s)
	if err != nil {
		return err
	}
	made := q.answer(op, &o, s)
	s.answer = append(made.AppendJSON(s.answer[:0], (*answer.Applied)(&o.Applied)), '\n')
	return nil
}

// decide decides q by its policy. A client that has disconnected is charged all the
// same: otherwise a disconnect would be a way around a limit.
func (a *API) decide(r *http.Request, from observe.Protocol, q *request, op weir.Op, s *scratch) (enforce.Outcome, error) {
	traceparent := ""
	if a.Tracing {
		traceparent = r.Header.Get("Traceparent")
	}
	o, err := q.to.Decide(context.WithoutCancel(r.Context()), from, traceparent,
		&enforce.Request{Target: q.target, Op: op, N: q.n, At: weir.Now, States: s.states[:len(q.to.Plan.Limits())], ID: q.id})
	if err == nil && o.Err != nil { // a shadow that could not decide
		a.Errors.NoDecision(o.Err)
	}
	return o, err
}

// answer returns a decision with the state of its limits.
func (q *request) answer(op weir.Op, o *enforce.Outcome, s *scratch) answer.Answer {
	return answer.Answer{Plan: o.Limiter.Plan(), Key: q.target.Key, Op: op, N: q.n, Decision: o.Decision,
		States: s.states[:len(q.to.Plan.Limits())], Units: o.Units, Blocked: o.Applied.Blocked}
}

// refund is the answer to POST /v1/refund.
type refund struct {
	Policy   string `json:"policy"`
	Refunded int64  `json:"refunded" jsonschema:"units that were taken back; less than n if fewer still count"`
}

func (a *API) serveRefund(w http.ResponseWriter, r *http.Request) {
	s := newScratch()
	defer s.release()
	q, err := a.parse(w, r, s, refundMembers)
	if err == nil {
		err = a.refund(r, &q, s)
	}
	a.reply(w, s, err)
}

func (a *API) refund(r *http.Request, q *request, s *scratch) error {
	if err := a.Capacity.Enter(); err != nil {
		return err
	}
	defer a.Capacity.Leave()
	n, err := q.to.Refund(context.WithoutCancel(r.Context()), observe.HTTP, &q.target, time.UnixMicro(q.granted), q.n, q.id)
	s.answer = marshal(refund{q.to.Name, n})
	return err
}

// serveReset drops the histories of a key, also those that it shares with other keys.
func (a *API) serveReset(w http.ResponseWriter, r *http.Request) {
	if err := a.reset(r, nameIn(r.URL.Path, "/v1/keys/{policy}")); err != nil {
		a.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *API) reset(r *http.Request, name string) error {
	to, err := a.Policies().Find(name, http.StatusNotFound)
	if err != nil {
		return err
	}
	var q query
	if err := q.parse(r.URL.RawQuery, nil); err != nil {
		return err
	}
	target, err := q.key.target(to)
	if err != nil {
		return err
	}
	if err := a.Capacity.Enter(); err != nil {
		return err
	}
	defer a.Capacity.Leave()
	return to.Reset(context.WithoutCancel(r.Context()), observe.HTTP, target.Key)
}
