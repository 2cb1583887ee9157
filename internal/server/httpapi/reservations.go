package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/reserve"
)

// serveReserve answers as a check does and, after a grant, with the token of the
// reservation and its expiry.
func (a *API) serveReserve(w http.ResponseWriter, r *http.Request) {
	s := newScratch()
	defer s.release()
	q, err := a.parse(w, r, s, reserveMembers)
	if err == nil {
		err = a.reserve(r, &q, s)
	}
	a.reply(w, s, err)
}

func (a *API) reserve(r *http.Request, q *request, s *scratch) error {
	ttl, err := reserve.TTL(q.to, q.ttl, `"ttl_ms"`)
	if err != nil {
		return err
	}
	if err := a.Capacity.Enter(); err != nil {
		return err
	}
	defer a.Capacity.Leave()
	o, err := a.decide(r, observe.HTTP, q, weir.OpAttempt, s)
	if err != nil {
		return err
	}
	made := q.answer(weir.OpAttempt, &o, s)
	b := made.AppendJSON(s.answer[:0], (*answer.Applied)(&o.Applied))
	if made.Decision.Allowed {
		token, err := a.Reservations.Issue(context.WithoutCancel(r.Context()),
			reserve.Grant{Policy: q.to, Pairs: q.key.all(), Key: q.target.Key, ID: q.id, Outcome: &o, TTL: ttl})
		if err != nil {
			return err
		}
		b = appendReservation(b[:len(b)-1], token, o.Decision.At.Add(ttl))
	}
	s.answer = append(b, '\n')
	return nil
}

// appendReservation appends the members of a reservation and ends the object.
func appendReservation(b []byte, token string, expires time.Time) []byte {
	b = answer.AppendString(append(b, `,"reservation":`...), token)
	b = append(b, `,"expires_at":"`...)
	b = expires.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return append(b, `"}`...)
}

// settlement is the answer to POST /v1/settle and /v1/release.
type settlement struct {
	Policy   string `json:"policy"`
	Reserved int64  `json:"reserved" jsonschema:"units that were reserved"`
	Actual   int64  `json:"actual" jsonschema:"units that were used"`
	Refunded int64  `json:"refunded" jsonschema:"units that were taken back; less than reserved minus actual if fewer still count"`
	Recorded int64  `json:"recorded" jsonschema:"units beyond the reservation, added at the instant of the settlement"`
}

func (a *API) serveSettle(w http.ResponseWriter, r *http.Request) {
	a.serveSettlement(w, r, settleMembers)
}

func (a *API) serveRelease(w http.ResponseWriter, r *http.Request) {
	a.serveSettlement(w, r, releaseMembers)
}

// serveSettlement settles a reservation; without "actual", with 0 units.
func (a *API) serveSettlement(w http.ResponseWriter, r *http.Request, takes member) {
	s := newScratch()
	defer s.release()
	q, err := a.parse(w, r, s, takes)
	if err == nil {
		err = a.settle(r, &q, s)
	}
	a.reply(w, s, err)
}

func (a *API) settle(r *http.Request, q *request, s *scratch) error {
	if err := a.Capacity.Enter(); err != nil {
		return err
	}
	defer a.Capacity.Leave()
	done, err := a.Reservations.Settle(context.WithoutCancel(r.Context()), observe.HTTP, q.token, q.actual)
	s.answer = marshal(settlement{done.Policy, done.Reserved, q.actual, done.Refunded, done.Recorded})
	return err
}
