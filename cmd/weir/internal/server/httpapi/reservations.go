package httpapi

import (
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/answer"
)

// reserve answers as a check does and, after a grant, with the token of the reservation,
// its expiry and, with a concurrency limit, the end of its hold.
func (a *API) reserve(r *http.Request, s *scratch) error {
	if err := a.answer(r, weir.OpAttempt, s); err != nil || !s.outcome.Decision.Allowed {
		return err
	}
	token, err := a.Reservations.Issue(background,
		reserve.Grant{Policy: s.to, Pairs: s.key, Key: s.target.Key, ID: s.id, Outcome: &s.outcome, TTL: s.life})
	if err != nil {
		return err
	}
	b := s.answer[:len(s.answer)-len("}\n")]
	b = answer.AppendString(append(b, `,"reservation":`...), token)
	b = append(b, `,"expires_at":"`...)
	b = answer.AppendInstant(b, s.outcome.Decision.At.Add(s.life))
	if t := s.outcome.Limiter.Compiled().HoldTime; t > 0 {
		b = answer.AppendInstant(append(b, `","held_until":"`...), s.outcome.Decision.At.Add(t))
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
func (a *API) settle(r *http.Request, s *scratch) error {
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
func (a *API) extend(r *http.Request, s *scratch) error {
	x, err := a.Reservations.Extend(background, observe.HTTP, s.token)
	s.answer = marshal(extension{x.Policy, x.Token, string(answer.AppendInstant(nil, x.Expires)), string(answer.AppendInstant(nil, x.HeldUntil))})
	return err
}
