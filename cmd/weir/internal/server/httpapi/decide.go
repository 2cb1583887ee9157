package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// serveCall answers a call with a body: it parses the body, decides and writes.
func (a *API) serveCall(w http.ResponseWriter, r *http.Request, to *route) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.op, s.via = to.op, viaHTTP
	if a.Tracing {
		s.via = traced(r, observe.HTTP)
	}
	err := a.parse(w, r, s, to.takes)
	if err == nil {
		err = a.within(s, to.decide)
	}
	if err != nil {
		a.reject(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.answer)
}

// within decides a parsed call within the capacity of the server. The place is free again
// before the answer is written, so slow clients cannot fill the capacity.
func (a *API) within(s *scratch, decide func(*API, *scratch) error) error {
	if err := a.Capacity.Enter(); err != nil {
		return err
	}
	defer a.Capacity.Leave()
	return decide(a, s)
}

// answer decides a call and writes the decision to s.answer.
func (a *API) answer(s *scratch) error {
	err := a.charge(s)
	if err == nil {
		made := answerOf(&s.request, &s.outcome)
		s.answer = append(made.AppendJSON(s.answer[:0], &s.outcome.Applied), '\n')
	}
	return err
}

// charge decides a call by its policy; s.outcome holds the decision. A client that has
// disconnected is charged all the same: otherwise a disconnect would be a way around a
// limit. So the engine does not get the context of the request.
func (a *API) charge(s *scratch) (err error) {
	s.request = enforce.Request{Target: s.target, Op: s.op, N: s.n, States: s.states[:len(s.to.Compiled.Limits)], ID: s.id, Via: s.via}
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

// traced returns how a request came in, with its trace.
func traced(r *http.Request, from observe.Protocol) *calls.Via {
	return &calls.Via{Protocol: from, Trace: r.Header.Get("Traceparent")}
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

func (a *API) refund(s *scratch) error {
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

func (a *API) count(s *scratch) error {
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
	s := scratches.Get().(*scratch)
	defer s.release()
	err := a.parseURL(r, s, resetPath, new(query))
	if err == nil {
		err = a.within(s, func(_ *API, s *scratch) error {
			_, err := s.to.Decide(background, &enforce.Request{Target: s.target, Op: engine.Reset, Via: viaHTTP})
			return err
		})
	}
	if err != nil {
		a.reject(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// reserve answers as a check does and, after a grant, with the token of the reservation,
// its expiry and, with a concurrency limit, the end of its hold.
func (a *API) reserve(s *scratch) error {
	if err := a.answer(s); err != nil || !s.outcome.Decision.Allowed {
		return err
	}
	x, err := a.Reservations.Issue(background,
		reserve.Grant{Policy: s.to, Pairs: s.key, Key: s.target.Key, ID: s.id, Outcome: &s.outcome, TTL: s.life})
	if err != nil {
		return err
	}
	b := s.answer[:len(s.answer)-len("}\n")]
	b = answer.AppendString(append(b, `,"reservation":`...), x.Token)
	b = answer.AppendInstant(append(b, `,"expires_at":"`...), x.Expires)
	if !x.HeldUntil.IsZero() {
		b = answer.AppendInstant(append(b, `","held_until":"`...), x.HeldUntil)
	}
	s.answer = append(b, "\"}\n"...)
	return nil
}

// settlement is the answer to POST /v1/settle and /v1/release.
type settlement struct {
	Policy   string `json:"policy"`
	Reserved int64  `json:"reserved" jsonschema:"units that were reserved"`
	Actual   int64  `json:"actual" jsonschema:"units that were used"`
	Refunded int64  `json:"refunded" jsonschema:"units that were taken back; less than reserved minus actual if fewer still count"`
	Recorded int64  `json:"recorded" jsonschema:"units beyond the reservation, added at the instant of the settlement"`
}

// settle settles a reservation with "actual"; without it /v1/settle settles all units that
// were reserved, and /v1/release 0.
func (a *API) settle(s *scratch) error {
	done, err := a.Reservations.Settle(background, observe.HTTP, s.token, s.actual)
	s.answer = marshal(settlement(done))
	return err
}

// extension is the answer to POST /v1/extend.
type extension struct {
	Policy      string `json:"policy"`
	Reservation string `json:"reservation" jsonschema:"the token that settles and extends it from now on; the old one does not"`
	ExpiresAt   string `json:"expires_at" jsonschema:"from then on it cannot be settled, RFC 3339 with microseconds"`
	HeldUntil   string `json:"held_until" jsonschema:"the hold ends then unless it is extended again"`
}

// extend renews the hold of a reservation.
func (a *API) extend(s *scratch) error {
	x, err := a.Reservations.Extend(background, observe.HTTP, s.token)
	s.answer = marshal(extension{x.Policy, x.Token, string(answer.AppendInstant(nil, x.Expires)), string(answer.AppendInstant(nil, x.HeldUntil))})
	return err
}

// checks decides a batch and writes the answers, in the order of the checks, to s.answer.
func (a *API) checks(s *scratch) error {
	set := a.Policies()
	items := make([]enforce.Item, len(s.batch))
	for i := range s.batch {
		items[i] = itemOf(set, &s.batch[i])
		items[i].Via = s.via
	}
	if s.together {
		if err := enforce.DecideTogether(background, items); err != nil {
			return checkError(err)
		}
	} else {
		enforce.DecideAll(background, items)
	}
	out := append(s.answer[:0], `{"checks":[`...)
	for i := range items {
		if i > 0 {
			out = append(out, ',')
		}
		it := &items[i]
		if it.Err != nil {
			out = a.appendProblem(out, i, it.Err)
			continue
		}
		if it.Outcome.Err != nil { // a shadow that could not decide
			a.Errors.NoDecision(it.Outcome.Err)
		}
		made := answerOf(&it.Request, &it.Outcome)
		out = made.AppendJSON(out, &it.Outcome.Applied)
	}
	s.answer = append(out, "]}\n"...)
	return nil
}

// checkError returns the error of a batch that is decided together, with the index of the
// check that is wrong.
func checkError(err error) error {
	of := new(weir.CallError)
	if !errors.As(err, &of) {
		return err
	}
	p := &calls.Problem{Err: weir.ErrInput, Detail: of.Err.Error()}
	if known := new(calls.Problem); errors.As(of.Err, &known) {
		*p = *known
	}
	p.Detail = "checks[" + strconv.Itoa(of.Call) + "]: " + p.Detail
	return p
}

// itemOf returns the item of a check, or one with the error of its input.
func itemOf(set *enforce.Version, c *call) enforce.Item {
	if c.unnamed {
		return enforce.Item{Err: errNoPolicy}
	}
	to, err := set.Rule(c.policy)
	if err != nil {
		return enforce.Item{Err: calls.NoPolicy(err, weir.ErrInput, listPolicies)}
	}
	target, err := to.Target(c.key)
	if err != nil {
		return enforce.Item{Err: err}
	}
	return enforce.Item{Rule: to, Request: enforce.Request{Target: target, Op: weir.OpAttempt, N: c.n,
		States: make([]weir.LimitState, len(to.Compiled.Limits)), ID: c.id}}
}

// appendProblem appends the answer of a check that got no decision: its index, and the
// members of a problem document.
func (a *API) appendProblem(out []byte, index int, err error) []byte {
	f := calls.Fail(err, &a.BadRequests, a.Errors)
	out = strconv.AppendInt(append(out, `{"index":`...), int64(index), 10)
	out = answer.AppendString(append(out, `,"type":"about:blank","title":`...), http.StatusText(f.Status))
	out = strconv.AppendInt(append(out, `,"status":`...), int64(f.Status), 10)
	return append(answer.AppendString(append(out, `,"detail":`...), f.Text), '}')
}
