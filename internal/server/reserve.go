package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/observe"
)

// serveReserve answers as a check does and, when units were granted, with the id by
// which they can be settled, and until when.
func (s *Server) serveReserve(w http.ResponseWriter, r *http.Request) {
	s.withBody(w, r, func(d *desk) ([]byte, error) {
		c, err := parseCall(d.body, reserveMembers)
		if err != nil {
			return nil, err
		}
		q, err := s.question(&c)
		if err != nil {
			return nil, err
		}
		if q.id, err = operationID(r.Header, q.id); err != nil {
			return nil, err
		}
		ttl, err := q.ttlOf(&c)
		if err != nil {
			return nil, err
		}
		o, err := s.decide(r, observe.HTTP, &q, weir.OpAttempt, d)
		if err != nil {
			return nil, err
		}
		a := q.answer(weir.OpAttempt, &o, d)
		b := a.AppendJSONOf(d.body, &o.Applied)
		if a.Decision.Allowed {
			b = s.appendReservation(b[:len(b)-1], &q, &c, &o, ttl)
		}
		return append(b, '\n'), nil
	})
}

// ttlOf is how long the reservation may last: the longest window unless the body
// says less.
func (q *question) ttlOf(c *call) (time.Duration, error) {
	longest := q.plan.LongestWindow()
	if c.ttl == 0 {
		return longest, nil
	}
	ttl := time.Duration(min(c.ttl, int64(weir.MaxWindow/time.Millisecond)+1)) * time.Millisecond
	if err := q.plan.CheckTTL(ttl); err != nil {
		return 0, badInput(`"ttl_ms" must be 1 to ` + strconv.FormatInt(longest.Milliseconds(), 10) +
			": the longest window of " + q.Name + ", after which nothing is left to settle")
	}
	return ttl, nil
}

// appendReservation appends the members of a reservation and ends the object.
func (s *Server) appendReservation(b []byte, q *question, c *call, o *enforce.Outcome, ttl time.Duration) []byte {
	d := &o.Decision
	r := reservation{policy: q.Name, units: q.charged(o), at: d.At.UnixMicro(), ttl: ttl, degraded: d.Degraded}
	if q.id != "" {
		r.mark, r.span = q.markOf(r.at), q.plan.LongestWindow()
	}
	for i := range c.key.n {
		r.key = append(r.key, c.key.at(i))
	}
	b = answer.AppendString(append(b, `,"reservation":`...), s.seal.id(&r))
	b = append(b, `,"expires_at":"`...)
	b = d.At.Add(ttl).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return append(b, `"}`...)
}

// charged is how many units an attempt has recorded: of a shadow those that it would
// have granted, and none where only reports are charged.
func (q *question) charged(o *enforce.Outcome) int64 {
	switch {
	case q.Reports():
		return 0
	case o.Applied.Shadow:
		return o.Applied.Would.Granted
	}
	return o.Decision.Granted
}

// serveSettle answers what was corrected, so that what was used counts; release
// says that nothing was.
func (s *Server) serveSettle(w http.ResponseWriter, r *http.Request, release bool) {
	takes := settleMembers
	if release {
		takes = releaseMembers
	}
	s.withBody(w, r, func(d *desk) ([]byte, error) {
		c, err := parseCall(d.body, takes)
		if err != nil {
			return nil, err
		}
		done, err := s.settle(context.WithoutCancel(r.Context()), &c)
		if err != nil {
			return nil, err
		}
		b := answer.AppendString(append(d.body, `{"policy":`...), done.policy)
		for _, m := range []struct {
			name string
			n    int64
		}{{"reserved", done.units}, {"actual", c.actual}, {"refunded", done.refunded}, {"recorded", done.recorded}} {
			b = strconv.AppendInt(append(b, `,"`+m.name+`":`...), m.n, 10)
		}
		return append(b, "}\n"...), nil
	})
}

// settlement is a reservation and what became of its units.
type settlement struct {
	*reservation
	refunded, recorded int64
}

// settle settles a reservation, once. The claim comes first: if this process dies
// behind it, the units stay as they were granted, which is never too few.
func (s *Server) settle(ctx context.Context, c *call) (done settlement, err error) {
	if done.reservation, err = s.seal.open(c.reservation); err != nil {
		return done, err
	}
	e, whose, err := s.reserved(done.reservation)
	if err != nil {
		return done, err
	}
	at, first, err := s.claims.take(ctx, done.reservation)
	switch {
	case err != nil:
		return done, e.noted(observe.HTTP, err)
	case done.expired(at):
		return done, &fault{http.StatusGone, "the reservation has expired; its " + strconv.FormatInt(done.units, 10) + " units stay as they were granted"}
	case !first:
		return done, &fault{http.StatusConflict, "the reservation is settled already; nothing was changed"}
	}
	switch {
	case c.actual > done.units:
		done.recorded = c.actual - done.units
		err = e.record(ctx, observe.HTTP, &whose, done.recorded)
	case c.actual < done.units && !done.degraded:
		done.refunded, err = e.refund(ctx, observe.HTTP, &whose, time.UnixMicro(done.at), done.units-c.actual)
	}
	if err != nil && !errors.Is(err, weir.ErrUnknownFate) {
		s.claims.giveBack(ctx, done.reservation, at)
	}
	return done, err
}

// reserved finds what a reservation is of, under the policies that are in force now.
func (s *Server) reserved(r *reservation) (e *entry, whose enforce.Subject, err error) {
	if e, err = s.find(r.policy, http.StatusNotFound); err != nil {
		return nil, whose, err
	}
	var named pairs
	for _, p := range r.key {
		named.add(p.name, p.value)
	}
	if whose, err = named.subject(e.Rule); err != nil {
		return nil, whose, &fault{http.StatusNotFound, "the policy " + r.policy + " counts by other dimensions since the reservation was made; its units leave in their time"}
	}
	return e, whose, nil
}
