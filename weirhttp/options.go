package weirhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Option adjusts Limit and Transport. Those that shape an answer have an effect on
// Limit alone, and those that shape a client on Transport alone.
type Option func(*config)

type config struct {
	form     HeaderForm
	cost     func(*http.Request) int64
	failOpen bool
	status   int
	onDenied func(http.ResponseWriter, *http.Request, *Outcome)
	onError  func(http.ResponseWriter, *http.Request, error)

	through  http.RoundTripper
	failFast bool
	maxHold  time.Duration
	retries  int
}

// settle applies the options and fills in the defaults.
func settle(opts []Option) config {
	c := config{status: http.StatusTooManyRequests, onError: writeDecisionError,
		through: http.DefaultTransport, maxHold: 5 * time.Minute}
	for _, o := range opts {
		o(&c)
	}
	if c.onDenied == nil {
		status := c.status
		c.onDenied = func(w http.ResponseWriter, _ *http.Request, o *Outcome) { o.WriteProblem(w, status) }
	}
	return c
}

// Headers chooses the fields that tell of the limits. Default: Draft. It panics
// on a form that does not exist.
func Headers(form HeaderForm) Option {
	if form > HeadersNone {
		panic(fmt.Sprintf("weirhttp: %d is not a form; use Draft, Legacy, Both or None", form))
	}
	return func(c *config) { c.form = form }
}

// Cost says how many units a request asks for, 0 … weir.MaxUnits; anything else
// is refused with 400. Default, also for nil: 1.
func Cost(units func(*http.Request) int64) Option {
	return func(c *config) { c.cost = units }
}

// Status is the status of a refusal, 400 … 599. Default: 429. It has no effect
// beside OnDenied, and panics out of range.
func Status(code int) Option {
	if code < 400 || code > 599 {
		panic(fmt.Sprintf("weirhttp: %d is not the status of a refusal; use 400 to 599", code))
	}
	return func(c *config) { c.status = code }
}

// OnDenied answers refused requests in place of Outcome.WriteProblem. The header
// fields are set already. nil is no option at all.
func OnDenied(h func(http.ResponseWriter, *http.Request, *Outcome)) Option {
	return func(c *config) {
		if h != nil {
			c.onDenied = h
		}
	}
}

// OnError answers requests for which no decision could be made. Default: 400 for
// a request that names nobody (*KeyError, weir.ErrKey) or costs no valid number
// of units (weir.ErrUnits), 503 for everything else. nil is no option at all.
func OnError(h func(http.ResponseWriter, *http.Request, error)) Option {
	return func(c *config) {
		if h != nil {
			c.onError = h
		}
	}
}

// FailOpen lets requests pass uncounted while the store cannot decide, instead
// of OnError. Bad input stays refused: otherwise leaving out a header would be a
// way around the limit.
func FailOpen() Option {
	return func(c *config) { c.failOpen = true }
}

// FailFast makes requests that Transport would keep waiting fail with a
// *LimitedError.
func FailFast() Option {
	return func(c *config) { c.failFast = true }
}

// MaxBackoff bounds how long Transport stays away because a server said so, whatever it
// said. Default: 5 minutes. 0 or less stays away from no server.
func MaxBackoff(d time.Duration) Option {
	return func(c *config) { c.maxHold = max(d, 0) }
}

// Retries lets Transport send a request again, up to n times, when the server refused
// it and said for how long: with 429, or with 503 where the method is idempotent. It
// waits that long, and asks the limiter anew. A body is sent again only if
// Request.GetBody is set, as http.NewRequest does for buffers and strings. Where it
// cannot be sent again in time the response is returned. Default: 0.
func Retries(n int) Option {
	return func(c *config) { c.retries = n }
}

// Through is what Transport sends requests by. Default, also for nil:
// http.DefaultTransport.
func Base(rt http.RoundTripper) Option {
	return func(c *config) {
		if rt != nil {
			c.through = rt
		}
	}
}

func writeDecisionError(w http.ResponseWriter, _ *http.Request, err error) {
	var k *KeyError
	switch {
	case errors.As(err, &k):
		WriteError(w, http.StatusBadRequest, k.Problem)
	case badInput(err):
		WriteError(w, http.StatusBadRequest, err.Error())
	default:
		WriteError(w, http.StatusServiceUnavailable,
			"no decision could be made, so the request was refused and not counted; try again later")
	}
}
