package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// buffers holds the bytes of requests and answers between uses.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// withBody calls use with the request's body and room for an answer, and writes
// the answer that use returns or the error.
func (s *Server) withBody(w http.ResponseWriter, r *http.Request, use func(body []byte) ([]byte, error)) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	body, err := readBody(r, *buf)
	*buf = body
	if err == nil {
		// The answer goes behind the body, in the same buffer.
		var all []byte
		if all, err = use(body); err == nil {
			*buf = all
			writeJSON(w, http.StatusOK, all[len(body):])
			return
		}
	}
	s.refuse(w, err)
}

// serveDecision answers check, peek and record.
func (s *Server) serveDecision(w http.ResponseWriter, r *http.Request, op weir.Op) {
	s.withBody(w, r, func(body []byte) ([]byte, error) {
		c, err := parseCall(body, decisionMembers)
		if err != nil {
			return nil, err
		}
		e, err := s.find(c.policy, http.StatusBadRequest)
		if err != nil {
			return nil, err
		}
		a, err := e.decide(r, &c.key, op, c.n)
		if err != nil {
			return nil, err
		}
		return append(a.AppendJSON(body), '\n'), nil
	})
}

// decide asks the limiter. A client that has gone is charged all the same, or
// hanging up would be a way around a limit.
func (e *entry) decide(r *http.Request, values *pairs, op weir.Op, n int64) (a answer.Answer, err error) {
	key, err := e.key(values)
	if err != nil {
		return a, err
	}
	d, states, err := e.limiter.Inspect(context.WithoutCancel(r.Context()), key, op, n)
	if err != nil {
		return a, e.noted(err)
	}
	e.count(op, n, &d)
	return answer.Answer{Plan: e.plan, Key: key, Op: op, N: n, Decision: d, States: states, Units: e.Units}, nil
}

// serveRefund answers with {"policy":"…","refunded":n}.
func (s *Server) serveRefund(w http.ResponseWriter, r *http.Request) {
	s.withBody(w, r, func(body []byte) ([]byte, error) {
		c, err := parseCall(body, refundMembers)
		if err != nil {
			return nil, err
		}
		e, err := s.find(c.policy, http.StatusBadRequest)
		if err != nil {
			return nil, err
		}
		key, err := e.key(&c.key)
		if err != nil {
			return nil, err
		}
		n, err := e.limiter.Refund(context.WithoutCancel(r.Context()), key, time.UnixMicro(c.granted), c.n)
		if err != nil {
			return nil, e.noted(err)
		}
		b := answer.AppendString(append(body, `{"policy":`...), e.Name)
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
		key, err := e.key(&q.key)
		if err != nil {
			return err
		}
		return e.noted(e.limiter.Reset(context.WithoutCancel(r.Context()), key))
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
)

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	w.WriteHeader(status)
	w.Write(body)
}
