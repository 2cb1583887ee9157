package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/observe"
)

// desk is what an answer is made on. States of decisions point into it, so
// nothing of them may be kept.
type desk struct {
	body   []byte // of the request; the answer goes behind it
	states [weir.MaxLimits]weir.LimitState
}

// desks holds the desks that are not in use.
var desks = sync.Pool{New: func() any { return new(desk) }}

// put gives a desk back. A buffer that a long body made grow goes, since the next body
// may be short and slow.
func (d *desk) put() {
	if cap(d.body) > 2*shortBody {
		d.body = nil
	}
	desks.Put(d)
}

// withBody calls use with the request's body on a desk, and writes the answer
// that use appends to it, or the error.
func (s *Server) withBody(w http.ResponseWriter, r *http.Request, use func(*desk) ([]byte, error)) {
	d := desks.Get().(*desk)
	defer d.put()
	var err error
	if d.body, err = s.readBody(w, r, d.body); err == nil {
		var all []byte
		if all, err = s.inRoom(d, use); err == nil {
			writeJSON(w, http.StatusOK, all[len(d.body):])
			d.body = all
			return
		}
	}
	s.refuse(w, err)
}

// inRoom calls use if there is room for another request.
func (s *Server) inRoom(d *desk, use func(*desk) ([]byte, error)) ([]byte, error) {
	if !s.room.enter() {
		return nil, errBusy
	}
	defer s.room.leave()
	return use(d)
}

// question is a call whose policy was found.
type question struct {
	*entry
	enforce.Target
	n       int64 // units
	granted int64 // of a refund: the instant of the grant, microseconds since 1970
	id      string
}

// ask reads what a body asks, and of whom.
func (s *Server) ask(body []byte, takes member) (q question, err error) {
	c, err := parseCall(body, takes)
	if err != nil {
		return q, err
	}
	return s.question(&c)
}

// question finds the policy of a call.
func (s *Server) question(c *call) (q question, err error) {
	if q.entry, err = s.find(c.policy, http.StatusBadRequest); err != nil {
		return q, err
	}
	q.n, q.granted, q.id = c.n, c.granted, c.id
	q.Target, err = c.key.subject(q.Rule)
	return q, err
}

// serveDecision answers check, peek and record.
func (s *Server) serveDecision(w http.ResponseWriter, r *http.Request, op weir.Op) {
	members := decisionMembers
	if op == weir.OpPeek {
		members = peekMembers
	}
	s.withBody(w, r, func(d *desk) ([]byte, error) {
		q, err := s.ask(d.body, members)
		if err == nil && members&idMember != 0 {
			q.id, err = operationID(r.Header, q.id)
		}
		if err != nil {
			return nil, err
		}
		o, err := s.decide(r, observe.HTTP, &q, op, d)
		if err != nil {
			return nil, err
		}
		a := q.answer(op, &o, d)
		return append(a.AppendJSONOf(d.body, (*answer.Applied)(&o.Applied)), '\n'), nil
	})
}

// decide asks the policy. A client that has gone is charged all the same, or
// hanging up would be a way around a limit.
func (s *Server) decide(r *http.Request, f observe.Protocol, q *question, op weir.Op, on *desk) (o enforce.Outcome, err error) {
	states := on.states[:len(q.plan.Limits())]
	o, err = q.traced(context.WithoutCancel(r.Context()), f, s.traceparent(r),
		&enforce.Request{Target: q.Target, Op: op, N: q.n, At: weir.Now, States: states, ID: q.id})
	if err == nil && o.Err != nil {
		s.complain(o.Err)
	}
	return o, err
}

// traceparent is what a request says of the trace it is part of; "" while nobody asks.
func (s *Server) traceparent(r *http.Request) string {
	if s.config.Tracer == nil {
		return ""
	}
	return r.Header.Get("Traceparent")
}

// answer is a decision with all that is told of it.
func (q *question) answer(op weir.Op, o *enforce.Outcome, on *desk) answer.Answer {
	return answer.Answer{Plan: o.Limiter.Plan(), Key: q.Key, Op: op, N: q.n, Decision: o.Decision,
		States: on.states[:len(q.plan.Limits())], Units: o.Units, Blocked: o.Applied.Blocked}
}

// serveRefund answers with {"policy":"…","refunded":n}.
func (s *Server) serveRefund(w http.ResponseWriter, r *http.Request) {
	s.withBody(w, r, func(d *desk) ([]byte, error) {
		q, err := s.ask(d.body, refundMembers)
		if err == nil {
			q.id, err = operationID(r.Header, q.id)
		}
		if err != nil {
			return nil, err
		}
		n, err := q.refund(context.WithoutCancel(r.Context()), observe.HTTP, &q.Target, time.UnixMicro(q.granted), q.n, q.id)
		if err != nil {
			return nil, err
		}
		b := answer.AppendString(append(d.body, `{"policy":`...), q.Name)
		b = strconv.AppendInt(append(b, `,"refunded":`...), n, 10)
		return append(b, "}\n"...), nil
	})
}

// serveReset forgets a key's histories, those it shares with other keys included.
func (s *Server) serveReset(w http.ResponseWriter, r *http.Request, name string) {
	err := func() error {
		e, err := s.find(name, http.StatusNotFound)
		if err != nil {
			return err
		}
		var q query
		if err := q.parse(r.URL.RawQuery, nil); err != nil {
			return err
		}
		subject, err := q.key.subject(e.Rule)
		if err != nil {
			return err
		}
		if !s.room.enter() {
			return errBusy
		}
		defer s.room.leave()
		return e.reset(context.WithoutCancel(r.Context()), observe.HTTP, subject.Key)
	}()
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}

	// noContent keeps a browser from running or framing an answer, whatever it is.
	noContent = []string{"default-src 'none'; frame-ancestors 'none'"}
)

func writeJSON(w http.ResponseWriter, status int, body []byte) { write(w, status, jsonType, body) }

func write(w http.ResponseWriter, status int, kind []string, body []byte) {
	h := w.Header()
	h["Content-Type"] = kind
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	w.Write(body)
}
