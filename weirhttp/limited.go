package weirhttp

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// ErrLimited is what every *LimitedError is.
var ErrLimited = errors.New("weirhttp: the request was not sent")

// LimitedError is the error of a request that Transport did not send. http.Client
// wraps it in a *url.Error; errors.As finds it.
type LimitedError struct {
	Decision   weir.Decision // of the limiter; the zero Decision when a server was in the way
	RetryAfter time.Duration // until the request can be sent; weir.Never
	FromServer bool          // a server said to stay away
	Cause      error         // why it did not wait: weir.ErrNever, weir.ErrDeadline; nil with FailFast
}

// Error says what was in the way, and when to come back.
func (e *LimitedError) Error() string {
	why := "limit " + answer.Shown(e.Decision.Limit) + " is reached"
	if e.FromServer {
		why = "the server said to stay away"
	}
	when := "it fits in " + answer.Wait(e.RetryAfter)
	if e.RetryAfter == weir.Never {
		when = "it never fits"
	}
	text := fmt.Sprintf("%v: %s; %s", ErrLimited, why, when)
	if errors.Is(e.Cause, weir.ErrDeadline) {
		text += ", after the deadline"
	}
	return text
}

// Unwrap returns ErrLimited and the cause.
func (e *LimitedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrLimited}
	}
	return []error{ErrLimited, e.Cause}
}

// Timeout reports whether the deadline was in the way, as net.Error does.
func (e *LimitedError) Timeout() bool { return errors.Is(e.Cause, weir.ErrDeadline) }
