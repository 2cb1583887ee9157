package weirhttp

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// ErrLimited matches every *LimitedError.
var ErrLimited = errors.New("weirhttp: the request was not sent")

// LimitedError is the error of a request that Transport did not send. http.Client wraps
// it in a *url.Error; errors.As finds it.
type LimitedError struct {
	Decision   weir.Decision // of the limiter; zero if FromServer is set
	RetryAfter time.Duration // until the request can be sent, or weir.Never
	FromServer bool          // an earlier response requested the wait
	Cause      error         // why Transport did not wait: weir.ErrNever, weir.ErrDeadline; nil with FailFast
}

// Error names the reason and the wait.
func (e *LimitedError) Error() string {
	why := "limit " + answer.Shown(e.Decision.Limit) + " is reached"
	if e.FromServer {
		why = "the server requested a wait"
	}
	when := "it fits in " + answer.Wait(e.RetryAfter)
	if e.RetryAfter == weir.Never {
		when = "it never fits"
	}
	text := fmt.Sprintf("%v: %s; %s", ErrLimited, why, when)
	if e.Timeout() {
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

// Timeout reports whether the wait would outlast the deadline, as net.Error does.
func (e *LimitedError) Timeout() bool { return errors.Is(e.Cause, weir.ErrDeadline) }
