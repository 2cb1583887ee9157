package weirhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// The older fields of a limit.
const (
	xLimit     = "X-RateLimit-Limit"
	xRemaining = "X-RateLimit-Remaining"
	xReset     = "X-RateLimit-Reset"
)

// XRateLimit adds the older fields X-RateLimit-Limit, X-RateLimit-Remaining and
// X-RateLimit-Reset to those of [Outcome.WriteHeaders], for clients that read them:
//
//   - Limit and Remaining are units. Remaining is never below 0.
//   - Reset is the instant at which no unit counts any more, in whole seconds since 1970 (UTC),
//     rounded up. GitHub, express-rate-limit and httprate send this form too; other services send
//     seconds from now. In a rolling window room comes back sooner, so clients should wait for
//     Retry-After.
//
// The fields have room for one limit. After a grant it is the one with the least Remaining.
// Concurrency limits are left out if there is another, because their room comes back with the
// end of requests. After a denial it is the limit with the longest wait. Of several Middlewares
// the fields of a denial stay, and otherwise those with the least Remaining.
//
// A shadow writes none. Default: only the fields of WriteHeaders.
func XRateLimit() Option {
	return func(c *config) { c.xRateLimit = true }
}

// writeFields writes the header fields of an outcome.
func (m *middleware) writeFields(h http.Header, o *Outcome) {
	o.writeHeaders(h, &m.field)
	if m.xRateLimit && !o.Shadow {
		o.writeXRateLimit(h)
	}
}

// writeXRateLimit writes the X-RateLimit fields, unless the state of the limit is not known, or
// an outer Middleware wrote the fields of a limit with less room.
func (o *Outcome) writeXRateLimit(h http.Header) {
	i, s := o.tightest()
	if s == nil {
		return
	}
	remaining := max(0, s.Remaining)
	outer, err := strconv.ParseInt(h.Get(xRemaining), 10, 64)
	if err == nil && o.Decision.Allowed && outer < remaining {
		return
	}
	h.Set(xLimit, strconv.FormatInt(o.Rules.Limits[i].Capacity, 10))
	h.Set(xRemaining, strconv.FormatInt(remaining, 10))
	h.Set(xReset, strconv.FormatInt(o.resetOf(s), 10))
}

// tightest returns the limit that the X-RateLimit fields show, with its number; nil if its state
// is not known.
func (o *Outcome) tightest() (at int, found *weir.LimitState) {
	for i, s := range answer.Of(&o.Outcome).Known() {
		switch {
		case !o.Decision.Allowed && s.Name == o.Decision.Limit:
			return i, s
		case !o.Decision.Allowed:
		case found == nil, isTighter(s, found):
			at, found = i, s
		}
	}
	return at, found
}

// isTighter reports whether the X-RateLimit fields show s rather than another limit.
func isTighter(s, than *weir.LimitState) bool {
	held, thanHeld := s.MaxHold > 0, than.MaxHold > 0
	if held != thanHeld {
		return thanHeld
	}
	return s.Remaining < than.Remaining
}

// resetOf returns the instant at which no unit of the limit counts any more, and no block of it
// runs, in seconds since 1970.
func (o *Outcome) resetOf(s *weir.LimitState) int64 {
	return o.Decision.At.Add(s.ResetAfter + time.Second - 1).Unix()
}
