package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/weirlimit/weir/internal/problemdoc"
)

// serveCall answers a call: it parses the request, decides and writes the answer. It frees its
// place in the capacity before it writes, so that slow clients do not fill the capacity.
func (a *API) serveCall(w http.ResponseWriter, r *http.Request, to *route) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.answer = s.answer[:0]
	s.Op = to.op
	s.Via = viaHTTP
	if a.Tracing {
		s.Via = traced(r, observe.HTTP)
	}
	err := a.parse(w, r, s, to.takes)
	if err == nil {
		err = a.Capacity.Do(func() error { return to.decide(a, s) })
	}
	switch {
	case err != nil:
		a.reject(w, err)
	case len(s.answer) == 0:
		w.WriteHeader(http.StatusNoContent)
	case s.denied:
		if wait := s.outcome.RetryAfter; wait != weir.Never {
			w.Header()["Retry-After"] = []string{strconv.FormatInt(answer.Seconds(wait), 10)}
		}
		writeJSON(w, http.StatusTooManyRequests, s.answer)
	default:
		writeJSON(w, http.StatusOK, s.answer)
	}
}

// answer decides a call and writes the decision to s.answer.
func (a *API) answer(s *scratch) error {
	if err := a.decide(s); err != nil {
		return err
	}
	j := answer.JSON{Text: s.answer}
	j.Object("")
	s.writeDecision(&j)
	s.endAnswer(&j)
	return nil
}

// writeDecision writes the decision of s.
func (s *scratch) writeDecision(j *answer.JSON) {
	made := answerOf(&s.Request, &s.outcome)
	made.Waits = s.waits
	made.WriteMembers(j, &s.outcome.Applied)
}

// endAnswer closes the object of an answer and keeps it in s.answer, as a line.
func (s *scratch) endAnswer(j *answer.JSON) {
	j.EndObject()
	s.answer = append(j.Text, '\n')
}

// decide makes a call by its policy, and stores the decision in s.outcome. It does not use the
// context of the request, because that ends when the client disconnects. A client must not
// bypass a limit by disconnecting, so it is charged all the same.
func (a *API) decide(s *scratch) (err error) {
	s.States = s.states[:len(s.to.Compiled.Limits)]
	s.outcome, err = s.to.Decide(background, &s.Request)
	return err
}

// resetAnswer is the answer to DELETE /v1/keys/{policy}.
type resetAnswer struct {
	Reset []string `json:"reset" jsonschema:"the limits whose histories of the key were dropped, also if there were none"`
	Kept  []string `json:"kept" jsonschema:"the other limits of the policy"`
}

// reset resets limits and answers with their names.
func (a *API) reset(s *scratch) error {
	if err := a.decide(s); err != nil {
		return err
	}
	s.answer = marshal(resetAnswer{s.outcome.Limits, s.to.OtherLimits(s.outcome.Limits)})
	return nil
}

// blockAnswer is the answer to POST /v1/block.
type blockAnswer struct {
	Policy  string   `json:"policy"`
	Limits  []string `json:"limits" jsonschema:"the limits in which the key was blocked or released"`
	Blocked string   `json:"blocked_until,omitempty" jsonschema:"the end of the longest block, RFC 3339; missing after a release"`
}

// block blocks or releases a key and answers with the limits and the end.
func (a *API) block(s *scratch) error {
	if err := a.decide(s); err != nil {
		return err
	}
	made := blockAnswer{Policy: s.to.Name, Limits: s.outcome.Limits}
	if until := s.outcome.Applied.Blocked; !until.IsZero() {
		made.Blocked = string(answer.AppendInstant(nil, until))
	}
	s.answer = marshal(made)
	return nil
}

// background is the context of every call. The context of a request ends when its client
// disconnects.
var background = context.Background()

// viaHTTP and viaGate describe the protocol of a request without a trace.
var (
	viaHTTP = &calls.Via{Protocol: observe.HTTP}
	viaGate = &calls.Via{Protocol: observe.Gate}
)

// traced returns the protocol of a request with its trace.
func traced(r *http.Request, from observe.Protocol) *calls.Via {
	return &calls.Via{Protocol: from, Trace: r.Header.Get("Traceparent")}
}

// answerOf returns the decision of a request with the state of its limits.
func answerOf(r *enforce.Request, o *enforce.Outcome) answer.Answer {
	return answer.Answer{
		Compiled: o.Limiter.Compiled(),
		Key:      r.Key,
		Op:       r.Op,
		N:        r.N,
		Decision: o.Decision,
		States:   r.States,
		Units:    o.Units,
		Blocked:  o.Applied.Blocked,
	}
}

// refund is the answer to POST /v1/refund.
type refund struct {
	Policy   string `json:"policy"`
	Refunded int64  `json:"refunded" jsonschema:"units that were taken back; less than n if fewer still count"`
}

func (a *API) refund(s *scratch) error {
	s.From = time.UnixMicro(s.granted)
	o, err := s.to.Decide(background, &s.Request)
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
	n, limit, err := calls.Count(background, s.to, &s.Request, s.last)
	if err != nil {
		return err
	}
	made := count{
		Count:  n,
		LastMS: s.last,
		Policy: s.to.Name,
		Limit:  limit.Name,
		Key:    map[string]string{},
	}
	for _, i := range limit.By {
		made.Key[s.to.Dimensions()[i]] = s.Key.Value(i)
	}
	s.answer = marshal(made)
	return nil
}

// reserve answers as a check does. After a grant the answer also has the name of the reservation,
// its expiry and, with a concurrency limit, the end of its hold. A reservation of 0 units is a peek.
func (a *API) reserve(s *scratch) error {
	if err := a.decide(s); err != nil {
		return err
	}
	j := answer.JSON{Text: s.answer}
	j.Object("")
	s.writeDecision(&j)
	if s.outcome.Decision.Allowed && s.N > 0 {
		opened := reserve.Opened(s.to, s.lines, s.key, &s.Request, &s.outcome)
		j.String("reservation", opened.Name)
		j.Instant("expires_at", opened.Expires)
		if !opened.HeldUntil.IsZero() {
			j.Instant("held_until", opened.HeldUntil)
		}
	}
	s.endAnswer(&j)
	return nil
}

// settle settles a reservation with "actual" units. Without that member /v1/settle settles all
// reserved units, and /v1/release settles 0.
func (a *API) settle(s *scratch) error {
	via := s.Via.(*calls.Via)
	done, err := reserve.Settle(background, a.finder(), via, s.reservation, s.actual)
	s.answer = marshal(done)
	return err
}

// extension is the answer to POST /v1/extend.
type extension struct {
	Policy      string `json:"policy"`
	Reservation string `json:"reservation" jsonschema:"the same as before"`
	Reserved    int64  `json:"reserved" jsonschema:"units that are reserved, the further ones included"`
	ExpiresAt   string `json:"expires_at" jsonschema:"from then on it cannot be settled, RFC 3339 with microseconds"`

	HeldUntil string `json:"held_until,omitempty" jsonschema:"the end of the hold, RFC 3339; missing without a concurrency limit"`
}

// extend renews a reservation. If its further units are denied, nothing is renewed. The answer is
// then that of a check, with the status 429.
func (a *API) extend(s *scratch) error {
	via := s.Via.(*calls.Via)
	x, err := reserve.Extend(background, a.finder(), via, s.reservation, s.N, s.Before)
	if err != nil {
		return err
	}
	if !x.Outcome.Allowed {
		s.denied = true
		s.outcome = x.Outcome
		made := answerOf(&x.Request, &x.Outcome)
		s.answer = append(made.AppendJSON(s.answer, &x.Outcome.Applied), '\n')
		return nil
	}
	made := extension{
		Policy:      x.Policy,
		Reservation: x.Name,
		Reserved:    x.Units,
		ExpiresAt:   string(answer.AppendInstant(nil, x.Expires)),
	}
	if !x.HeldUntil.IsZero() {
		made.HeldUntil = string(answer.AppendInstant(nil, x.HeldUntil))
	}
	s.answer = marshal(made)
	return nil
}

// checks decides a batch and writes the answers, in the order of the checks, to s.answer.
func (a *API) checks(s *scratch) error {
	items := make([]enforce.Item, len(s.batch))
	for i := range s.batch {
		items[i] = a.itemOf(&s.batch[i])
		items[i].Op = s.Op
		items[i].Via = s.Via
	}
	if s.together {
		if err := decideTogether(s.batch, items); err != nil {
			return err
		}
	} else {
		enforce.DecideAll(background, items)
	}
	j := answer.JSON{Text: s.answer}
	j.Object("")
	j.Array("checks")
	for i := range items {
		item := &items[i]
		j.Object("")
		if item.Err != nil {
			a.writeProblem(&j, i, item.Err)
		} else {
			made := answerOf(&item.Request, &item.Outcome)
			made.Waits = s.batch[i].waits
			made.WriteMembers(&j, &item.Outcome.Applied)
		}
		j.EndObject()
	}
	j.EndArray()
	s.endAnswer(&j)
	return nil
}

// decideTogether decides the checks of a batch as one attempt. An error names the check.
func decideTogether(batch []call, items []enforce.Item) error {
	for i := range batch {
		if batch[i].waits {
			return calls.BadInput(`checks[%d]: %s is for a check that is decided by itself; `+
				`leave it out, or "together"`, i, waitName)
		}
	}
	err := enforce.DecideTogether(background, items)
	if wrong := new(engine.CallError); errors.As(err, &wrong) {
		return fmt.Errorf("checks[%d]: %w", wrong.Call, wrong.Err)
	}
	return err
}

// itemOf returns the item of a check, or one with the error of its input.
func (a *API) itemOf(c *call) enforce.Item {
	if c.unnamed {
		return enforce.Item{Err: errNoPolicy}
	}
	to, err := a.ruleOf(c, weir.ErrInput)
	if err != nil {
		return enforce.Item{Err: err}
	}
	if c.Target, err = to.Target(c.key); err != nil {
		return enforce.Item{Err: err}
	}
	if c.waits {
		if c.MaxWait, err = calls.MaxWait(to, c.wait, waitName); err != nil {
			return enforce.Item{Err: err}
		}
	}
	c.States = make([]weir.LimitState, len(to.Compiled.Limits))
	return enforce.Item{Rule: to, Request: c.Request}
}

// writeProblem writes the answer of a check that got no decision: its index, and the
// members of a problem document.
func (a *API) writeProblem(j *answer.JSON, index int, err error) {
	f := calls.Fail(err, &a.BadRequests, a.Errors)
	j.Int("index", int64(index))
	problemdoc.WriteMembers(j, "about:blank", http.StatusText(f.Status), f.Status, f.Text)
}

// reject answers a request that got no decision with a problem document.
func (a *API) reject(w http.ResponseWriter, err error) {
	harden(w.Header())
	if errors.Is(err, calls.ErrBusy) {
		w.Header()["Retry-After"] = oneSecond
	}
	f := calls.Fail(err, &a.BadRequests, a.Errors)
	problemdoc.Write(w, f.Status, f.Text)
}

// These are values of header fields that all answers share.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}

	// noContent is a policy with which a browser does not run or frame an answer.
	noContent = []string{"default-src 'none'; frame-ancestors 'none'"}
)

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	w.Write(body)
}

// marshal returns v as a line of JSON.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // encoding strings and numbers cannot fail
	}
	return append(answer.Printable(b), '\n')
}
