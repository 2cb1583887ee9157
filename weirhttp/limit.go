package weirhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// KeyFunc says whom a request is counted for. An error means that the request
// names nobody; it is refused, not counted together with others.
type KeyFunc = func(*http.Request) (weir.Key, error)

// Limit returns a middleware that lets a request pass when l grants it. Its
// handler must be given whom to count for: key is required, and there is no
// default. Limit panics if l or key is missing.
//
// The charge is made even if the client has gone: a request that is cancelled at
// once must not be free.
func Middleware(l *weir.Limiter, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	if l == nil || l.Plan() == nil {
		panic("weirhttp: Limit needs a limiter made with weir.New")
	}
	if key == nil {
		panic("weirhttp: Limit needs a key function, such as weirhttp.ByClientIP()")
	}
	m := middleware{limiter: l, key: key, field: PolicyField(l.Plan()), config: settle(opts)}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	limiter *weir.Limiter
	key     KeyFunc
	field   string // the RateLimit-Policy field
	config
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, err := m.key(r)
	if err != nil {
		m.onError(w, r, asKeyError(err))
		return
	}
	o, err := m.decide(r, key)
	switch {
	case err == nil && o.Decision.Allowed:
		o.writeHeaders(w.Header(), m.form, m.field)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, o)))
	case err == nil:
		o.writeHeaders(w.Header(), m.form, m.field)
		m.onDenied(w, r, o)
	case m.failOpen && !badInput(err):
		next.ServeHTTP(w, r)
	default:
		m.onError(w, r, err)
	}
}

func (m *middleware) decide(r *http.Request, key weir.Key) (*Outcome, error) {
	n := int64(1)
	if m.cost != nil {
		n = m.cost(r)
	}
	o := newOutcome(m.limiter.Plan(), key, n)
	var err error
	o.Decision, err = m.limiter.InspectInto(context.WithoutCancel(r.Context()), key, weir.OpAttempt, n, o.States)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// KeyError reports that a request does not say whom to count it for. Its text is
// meant for the client.
type KeyError struct{ Problem string }

// Error is the problem.
func (e *KeyError) Error() string { return "weirhttp: " + e.Problem }

// asKeyError marks what a key function returned. The text of a foreign error is
// not shown to clients: it may hold what they should not see.
func asKeyError(err error) error {
	var k *KeyError
	if errors.As(err, &k) {
		return err
	}
	return errors.Join(&KeyError{Problem: "the request does not say whom to count it for"}, err)
}

// badInput reports errors that come from the request (R14), not from the store.
func badInput(err error) bool {
	var k *KeyError
	return errors.As(err, &k) || answer.IsBadInput(err)
}
