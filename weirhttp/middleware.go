// Package weirhttp applies a weir.Limiter, or a rule of a policy file, to HTTP handlers and
// clients.
//
//	perIP := weirhttp.Middleware(limiter, weirhttp.By{"ip": weirhttp.ClientIP()})
//	http.ListenAndServe(addr, perIP(handler))
//
// A request over the limit gets status 429 with Retry-After, the RateLimit and
// RateLimit-Policy fields of draft-ietf-httpapi-ratelimit-headers-10, and a problem
// document (RFC 9457) that gives the reason and the next step in one sentence.
//
// # Trade-off
//
// The key of a request comes only from the functions in [By]; there is no default.
// Middleware compares their names with the policy, so a missing or misspelled dimension
// stops the program at its start. A request without a value is rejected with 400 and never
// counted together with others. Forwarding headers are read only when the peer is one of
// your [TrustedProxies]. When no decision is possible the request is rejected with 503,
// unless [AllowWhenDown] is set.
//
// A client that keeps to a limit of its own, and to the 429 of a server, uses [NewTransport].
//
// A proxy that needs decisions over the network uses `weir serve` and its /gate.
package weirhttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/keyby"
	"github.com/weirlimit/weir/internal/option"
	"github.com/weirlimit/weir/internal/outagelog"
	"github.com/weirlimit/weir/internal/problemdoc"
)

// Middleware returns a middleware that passes a request on when d grants it. d is a
// *weir.Limiter, or the rule of a policy file with its plans, overrides and shadow:
//
//	set, err := enforce.Open("weir.yaml", weir.NewMemory())
//	login := func(name string) weirhttp.ValueFunc { // a value that the login wrote
//		return func(r *http.Request) (string, error) {
//			value, _ := r.Context().Value(name).(string)
//			return value, nil
//		}
//	}
//	by := weirhttp.By{"user": login("user"), "plan": login("plan")} // a plan may be ""
//	limit := weirhttp.Middleware(set.Rule("api"), by)
//
// by names the function for each dimension of the policy, and perhaps for its plan-by.
//
// Middleware panics if d is nil or has no policy, or if the names in by are not those of its
// values. Both are mistakes in the program, and no request may be needed to find them.
//
// The charge is made even if the client has disconnected: a request that is cancelled
// immediately must not be free. A shadow passes every request, and its outcome has the decision
// that it does not enforce (Would); it writes no header fields.
//
// A limit of kind weir.KindConcurrency counts a request until its handler returns or panics. If
// the handler runs for longer than the limit's MaxHold, the hold has ended by time; that is
// one line in ErrorLog, and the MaxHold should be longer.
func Middleware(d weir.Decider, by By, opts ...Option) func(http.Handler) http.Handler {
	keys := keyby.New("weirhttp: Middleware", d, by, ErrProgram)
	m := &middleware{keys: keys, config: newConfig(keys.Policy(), opts)}
	if problem := keys.WaitProblem(); problem != "" && m.maxWait > 0 {
		panic("weirhttp: Middleware: " + problem)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m.serve(w, r, next)
		})
	}
}

type middleware struct {
	keys  keyby.Keys[ValueFunc]
	field policyField
	config
}

// serve decides the request, and passes it on or rejects it.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.skip != nil && m.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	exempt, err := m.isExempt(r)
	if err != nil {
		m.onError(w, r, err)
		return
	}
	if exempt {
		next.ServeHTTP(w, r)
		return
	}
	units := m.cost(r)
	if units == 0 {
		next.ServeHTTP(w, r)
		return
	}
	o, held, err := m.decideRequest(r, units)
	switch {
	case err == nil && o.Decision.Allowed:
		m.outages.Set(shadowError(o))
		if !m.awaitStart(r, o, held) {
			problemdoc.Write(w, http.StatusServiceUnavailable, endedWaiting)
			return
		}
		m.writeFields(w.Header(), o)
		r = r.WithContext(context.WithValue(r.Context(), contextKey{}, o))
		m.handle(w, r, next, held)
	case err == nil:
		m.outages.Set(nil)
		m.writeFields(w.Header(), o)
		m.onDenied(w, r, o)
	case m.passes(err):
		m.outages.Set(errors.New(answer.Logged(err)))
		next.ServeHTTP(w, r)
	default:
		m.onError(w, r, err)
	}
}

// decideRequest attempts the request's units. held is nil if nothing was granted, or nothing is to
// be settled.
func (m *middleware) decideRequest(
	r *http.Request, units int64,
) (o *Outcome, held *weir.Reservation, err error) {
	values, err := keyby.Read[*KeyError](&m.keys,
		func(value ValueFunc) (string, error) { return value(r) })
	if err != nil {
		return nil, nil, err
	}
	ctx := context.WithoutCancel(r.Context()) // a client that hangs up must not go free
	q := weir.Request{N: units}
	if m.maxWait > 0 {
		q.MaxWait = keyby.TimeLeft(r.Context(), m.maxWait)
	}
	held, decided, err := m.keys.Attempt(ctx, values, q, m.countOnly != nil || m.maxWait > 0)
	return &Outcome{decided}, held, err
}

// shadowError returns the reason why a shadow could not be decided, for the log.
func shadowError(o *Outcome) error {
	if o.Err == nil {
		return nil
	}
	return errors.New(answer.Logged(o.Err))
}

// passes reports whether a request passes uncounted, although err prevented a decision.
func (m *middleware) passes(err error) bool {
	status, _ := answerTo(err)
	return m.allowWhenDown &&
		status == http.StatusServiceUnavailable && !errors.Is(err, weir.ErrFull)
}

// Option sets one property of [Middleware]. A nil Option changes nothing.
type Option func(*config)

type config struct {
	cost          func(*http.Request) int64
	allowWhenDown bool
	skip          func(*http.Request) bool
	exempt        []exemption
	countOnly     func(status int) bool
	maxWait       time.Duration // 0 = requests are not delayed
	xRateLimit    bool
	onDenied      func(http.ResponseWriter, *http.Request, *Outcome)
	onError       func(http.ResponseWriter, *http.Request, error)
	errorLog      *slog.Logger
	outages       *outagelog.Log // whether decisions can be made, in errorLog
}

// newConfig applies the options to the defaults.
func newConfig(policy string, opts []Option) config {
	c := config{errorLog: slog.Default()}
	option.Apply(&c, opts)
	c.outages = &outagelog.Log{
		To:   c.errorLog.With("policy", policy),
		Up:   "weirhttp: requests are decided again",
		Down: "weirhttp: a request could not be decided; such requests are rejected with status 503",
	}
	if c.allowWhenDown {
		c.outages.Down = "weirhttp: a request could not be decided; " +
			"such requests pass uncounted unless the store is full"
	}
	if c.cost == nil {
		c.cost = func(*http.Request) int64 { return 1 }
	}
	if c.onDenied == nil {
		c.onDenied = func(w http.ResponseWriter, _ *http.Request, o *Outcome) {
			o.WriteProblem(w, http.StatusTooManyRequests)
		}
	}
	if c.onError == nil {
		log, outages := c.errorLog, c.outages
		c.onError = func(w http.ResponseWriter, _ *http.Request, err error) {
			status, detail := answerTo(err)
			switch status {
			case http.StatusInternalServerError:
				log.Error("a request was rejected with status 500: a fault of the program",
					"policy", policy, "error", err)
			case http.StatusServiceUnavailable:
				outages.Set(errors.New(answer.Logged(err)))
			}
			problemdoc.Write(w, status, detail)
		}
	}
	return c
}

// Cost sets the function that returns the number of units of a request, 0 … weir.MaxUnits. A
// request of 0 units passes without a decision, as by [Skip]. Any other number is rejected with
// 400. Default, also for nil: 1.
func Cost(units func(*http.Request) int64) Option {
	return func(c *config) { c.cost = units }
}

// Skip sets a function that reports whether a request passes without a decision, such as
// a health check. It is neither counted nor given header fields. [Exempt] skips the addresses of
// clients. Default, also for nil: no request is skipped.
func Skip(skip func(*http.Request) bool) Option {
	return func(c *config) { c.skip = skip }
}

// OnDenied answers denied requests. The header fields are set already. Default, also for nil:
// Outcome.WriteProblem with status 429. Another status needs only a call of WriteProblem.
func OnDenied(h func(http.ResponseWriter, *http.Request, *Outcome)) Option {
	return func(c *config) { c.onDenied = h }
}

// OnError answers requests for which no decision was possible. Default, also for nil:
//   - 400 for a request without a usable key (*KeyError) or with bad input, such as an
//     invalid number of units (weir.ErrInput);
//   - 500 and a line in ErrorLog for a fault of the program (ErrProgram);
//   - 503 for everything else. ErrorLog has a line when this begins, and one when requests are
//     decided again. In ten seconds at most one line says that it begins.
func OnError(h func(http.ResponseWriter, *http.Request, error)) Option {
	return func(c *config) { c.onError = h }
}

// ErrorLog sets the logger for faults of the program (ErrProgram) and for outages, unless OnError
// is set; for requests that AllowWhenDown passes; and for holds that could not be ended
// (weir.KindConcurrency). An outage has a line at its begin and at its end, all else one per
// request. slog.New(slog.DiscardHandler) silences it. Default, also for nil: slog.Default().
func ErrorLog(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.errorLog = log
		}
	}
}

// AllowWhenDown passes requests uncounted while the store cannot decide, in place of OnError.
// A full store (ErrFull) decides: otherwise invented keys could fill it and so switch limits off.
// Bad input is still rejected: otherwise a client could avoid the limit by leaving out a
// header. ErrorLog has a line when requests begin to pass, and one when they are decided again.
// Default: such requests are rejected.
func AllowWhenDown() Option {
	return func(c *config) { c.allowWhenDown = true }
}

// errorAnswers are the answers to errors, by the first that an error wraps. Bad input (R14)
// has the error's own text for a detail. That of another error is not sent: it may hold
// secrets.
var errorAnswers = []answer.ForError[int]{
	answer.For(ErrProgram, http.StatusInternalServerError,
		"the server has a fault, so the request could not be counted; its log has the cause"),
	answer.For(weir.ErrInput, http.StatusBadRequest, ""),
	answer.For(weir.ErrOverflow, http.StatusBadRequest, ""),
	answer.For(weir.ErrOutcomeUnknown, http.StatusServiceUnavailable,
		"the store did not answer, so the request was denied; it may have been counted; "+
			"try again later"),
	// The other errors of a store.
	answer.For(nil, http.StatusServiceUnavailable,
		"no decision could be made, so the request was denied and not counted; try again later"),
}

// answerTo returns the status and the detail of the answer to an error.
func answerTo(err error) (status int, detail string) {
	if key, ok := errors.AsType[*KeyError](err); ok {
		return http.StatusBadRequest, key.Problem
	}
	return answer.ToError(err, errorAnswers)
}
