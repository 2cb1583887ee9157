package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
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
		ttl, err := q.ttlOf(c.ttl)
		if err != nil {
			return nil, err
		}
		o, err := s.decide(r, observe.HTTP, &q, weir.OpAttempt, d)
		if err != nil {
			return nil, err
		}
		a := q.answer(weir.OpAttempt, &o, d)
		b := a.AppendJSONOf(d.body, (*answer.Applied)(&o.Applied))
		if a.Decision.Allowed {
			var key []pair
			for i := range c.key.n {
				key = append(key, c.key.at(i))
			}
			id, err := s.bind(context.WithoutCancel(r.Context()), q.reservation(key, &q.Key, q.id, &o, ttl))
			if err != nil {
				return nil, err
			}
			b = appendReservation(b[:len(b)-1], id, o.Decision.At.Add(ttl))
		}
		return append(b, '\n'), nil
	})
}

// ttlOf is how long a reservation may last that asks for so many milliseconds: with 0
// the longest window.
func (e *entry) ttlOf(ms int64) (time.Duration, error) {
	longest := e.plan.LongestWindow()
	if ms == 0 {
		return longest, nil
	}
	ttl := time.Duration(min(ms, int64(weir.MaxWindow/time.Millisecond)+1)) * time.Millisecond
	if err := e.plan.CheckTTL(ttl); err != nil {
		return 0, badInput(`"ttl_ms" must be 1 to ` + strconv.FormatInt(longest.Milliseconds(), 10) +
			": the longest window of " + e.Name + ", after which nothing is left to settle")
	}
	return ttl, nil
}

// reservation is what an operation, or one without an id, was granted. key holds the
// value that chose a plan as well, if there is one.
func (e *entry) reservation(key []pair, whose *weir.Key, id string, o *enforce.Outcome, ttl time.Duration) *reservation {
	d := &o.Decision
	r := &reservation{policy: e.Name, key: key, units: e.charged(o), at: d.At.UnixMicro(), ttl: ttl, degraded: d.Degraded}
	if id != "" {
		r.mark, r.span = e.markOf(whose, id, r.at), e.plan.LongestWindow()
	}
	return r
}

// appendReservation appends the members of a reservation and ends the object.
func appendReservation(b []byte, id string, expires time.Time) []byte {
	b = answer.AppendString(append(b, `,"reservation":`...), id)
	b = append(b, `,"expires_at":"`...)
	b = expires.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return append(b, `"}`...)
}

// charged is how many units an attempt has recorded: of a shadow those that it would
// have granted, and none where only reports are charged.
func (e *entry) charged(o *enforce.Outcome) int64 {
	switch {
	case e.Reports():
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
		done, err := s.settle(context.WithoutCancel(r.Context()), observe.HTTP, c.reservation, c.actual)
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

// settle settles a reservation, once. The claim comes first: if this process or the
// store dies behind it, the units stay as they were granted, which is never too few,
// until whoever got no answer asks again. What corrects them has an id, so that it is
// done once however often it is asked.
func (s *Server) settle(ctx context.Context, f observe.Protocol, id string, actual int64) (done settlement, err error) {
	if done.reservation, err = s.seal.open(id); err != nil {
		return done, err
	}
	e, whose, err := s.reserved(done.reservation)
	if err != nil {
		return done, err
	}
	if err := s.bound(ctx, done.reservation); err != nil {
		return done, e.noted(f, err)
	}
	claimed, err := s.claims.take(ctx, done.reservation, actual)
	switch {
	case err != nil:
		return done, e.noted(f, err)
	case claimed.verdict == tooLate:
		return done, &fault{http.StatusGone, "the reservation has expired; its " + strconv.FormatInt(done.units, 10) + " units stay as they were granted"}
	case claimed.verdict == settledBefore:
		return done, &fault{http.StatusConflict, "the reservation is settled already; nothing was changed"}
	}
	operation := "weir.reservations:" + done.mark
	switch {
	case actual > done.units:
		done.recorded = actual - done.units
		err = e.record(ctx, f, s.claims.engine, &whose, done.recorded, operation)
	case actual < done.units && !done.degraded:
		done.refunded, err = e.refund(ctx, f, &whose, time.UnixMicro(done.at), done.units-actual, operation)
	default: // nothing is to be corrected, and it is a call like others
		e.Note(observe.Call{Protocol: f, Outcome: observe.Recorded})
	}
	if err != nil && isBadInput(err) {
		s.claims.void(ctx, done.reservation, claimed)
	}
	return done, err
}

// reserved finds what a reservation is of, under the policies that are in force now.
func (s *Server) reserved(r *reservation) (e *entry, whose enforce.Target, err error) {
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
