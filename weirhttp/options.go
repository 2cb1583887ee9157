package weirhttp

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/option"
)

// Option adjusts Middleware.
type Option func(*config)

type config struct {
	cost          func(*http.Request) int64
	allowWhenDown bool
	skip          func(*http.Request) bool
	onDenied      func(http.ResponseWriter, *http.Request, *Outcome)
	onError       func(http.ResponseWriter, *http.Request, error)
	errorLog      *slog.Logger
}

// newConfig applies the options to the defaults.
func newConfig(opts []Option) config {
	c := config{errorLog: slog.Default()}
	option.Apply(&c, opts)
	if c.cost == nil {
		c.cost = func(*http.Request) int64 { return 1 }
	}
	if c.onDenied == nil {
		c.onDenied = func(w http.ResponseWriter, _ *http.Request, o *Outcome) {
			o.WriteProblem(w, http.StatusTooManyRequests)
		}
	}
	if c.onError == nil {
		log := c.errorLog
		c.onError = func(w http.ResponseWriter, _ *http.Request, err error) {
			status, detail := answerTo(err)
			if status == http.StatusInternalServerError {
				log.Error("a request was rejected with status 500: the program could not read its key", "error", err)
			}
			WriteError(w, status, detail)
		}
	}
	return c
}

// Cost sets the function that returns the number of units of a request,
// 0 … weir.MaxUnits. Any other number is rejected with 400. Default, also for nil: 1.
func Cost(units func(*http.Request) int64) Option {
	return func(c *config) { c.cost = units }
}

// Skip sets a function that reports whether a request passes without a decision, such as
// a health check. It is neither counted nor given header fields. Default, also for nil:
// no request is skipped.
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
//   - 500 and a line in ErrorLog for a ValueFunc that failed (ErrValue);
//   - 503 for everything else.
func OnError(h func(http.ResponseWriter, *http.Request, error)) Option {
	return func(c *config) { c.onError = h }
}

// ErrorLog sets the logger for faults of the program (ErrValue), unless OnError is set,
// and for holds that could not be ended (weir.Concurrency), one line per request. Default,
// also for nil: slog.Default().
func ErrorLog(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.errorLog = log
		}
	}
}

// AllowWhenDown passes requests uncounted while the store cannot decide, in place of OnError.
// Bad input is still rejected: otherwise a client could avoid the limit by leaving out a
// header. Default: such requests are rejected.
func AllowWhenDown() Option {
	return func(c *config) { c.allowWhenDown = true }
}

// errorAnswers are the answers to errors, by the first that an error wraps. Bad input (R14)
// has the error's own text for a detail. That of another error is not sent: it may hold
// secrets.
var errorAnswers = []answer.ForError[int]{
	answer.For(ErrValue, http.StatusInternalServerError, "the server failed to read the key that the request is counted by; its log has the cause"),
	answer.For(weir.ErrInput, http.StatusBadRequest, ""),
	answer.For(weir.ErrOverflow, http.StatusBadRequest, ""),
	answer.For(weir.ErrOutcomeUnknown, http.StatusServiceUnavailable, "the store did not answer, so the request was denied; it may have been counted; try again later"),
	answer.For(nil, http.StatusServiceUnavailable, "no decision could be made, so the request was denied and not counted; try again later"), // the store's errors
}

// answerTo returns the status and the detail of the answer to an error.
func answerTo(err error) (status int, detail string) {
	if key, ok := errors.AsType[*KeyError](err); ok {
		return http.StatusBadRequest, key.Problem
	}
	return answer.ToError(err, errorAnswers)
}
