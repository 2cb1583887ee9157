package weirhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/keyby"
)

// Middleware returns a middleware that passes a request on when l grants it. by names
// the function for each dimension of l's policy.
//
// Middleware panics if l is not made with weir.New, or if the names in by are not the
// dimensions of its policy. Both are mistakes in the program, and no request may be
// needed to find them.
//
// The charge is made even if the client has disconnected: a request that is cancelled at
// once must not be free.
func Middleware(l *weir.Limiter, by By, opts ...Option) func(http.Handler) http.Handler {
	values := keyby.Functions("weirhttp: Middleware", l, by)
	m := middleware{limiter: l, values: values, field: PolicyField(l.Plan()), config: newConfig(opts)}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	limiter *weir.Limiter
	values  []ValueFunc // in the order of the plan's dimensions
	field   string      // the RateLimit-Policy field
	config
}

// serve decides the request, and passes it on or rejects it.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.skip != nil && m.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	o, err := m.decide(r)
	switch {
	case err == nil && o.Decision.Allowed:
		o.writeHeaders(w.Header(), m.form, m.field)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, o)))
	case err == nil:
		o.writeHeaders(w.Header(), m.form, m.field)
		m.onDenied(w, r, o)
	case m.passes(err):
		next.ServeHTTP(w, r)
	default:
		m.onError(w, r, err)
	}
}

// decide attempts the request's units.
func (m *middleware) decide(r *http.Request) (*Outcome, error) {
	key, err := readKey(r, m.limiter.Plan(), m.values)
	if err != nil {
		return nil, err
	}
	o := newOutcome(m.limiter.Plan(), key, m.units(r))
	o.Decision, err = m.limiter.Decide(context.WithoutCancel(r.Context()), key, weir.Request{Op: weir.OpAttempt, N: o.N, At: weir.Now, States: o.States})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// passes reports whether a request passes uncounted, although err prevented a decision.
func (c *config) passes(err error) bool {
	return c.failOpen && !isBadInput(err) && !errors.Is(err, ErrValue)
}

// isBadInput reports whether err comes from the request (R14) and not from the store.
func isBadInput(err error) bool {
	_, bad := errors.AsType[*KeyError](err)
	return bad || answer.IsBadInput(err)
}
