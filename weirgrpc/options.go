package weirgrpc

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"

	"github.com/weirlimit/weir/internal/option"
)

// Option adjusts interceptors.
type Option func(*config)

type config struct {
	cost          func(context.Context, *Call) int64
	skip          func(context.Context, *Call) bool
	allowWhenDown bool
	onDenied      func(context.Context, *Outcome) error
	onError       func(context.Context, error) error
	errorLog      *slog.Logger
}

// newConfig applies the options to the defaults.
func newConfig(opts []Option) config {
	c := config{errorLog: slog.Default()}
	option.Apply(&c, opts)
	if c.cost == nil {
		c.cost = func(context.Context, *Call) int64 { return 1 }
	}
	if c.onDenied == nil {
		c.onDenied = func(_ context.Context, o *Outcome) error { return o.Status().Err() }
	}
	if log := c.errorLog; c.onError == nil {
		c.onError = func(_ context.Context, err error) error {
			s := toStatus(err)
			if s.Code() == codes.Internal {
				log.Error("a call ended with INTERNAL: the program could not read its key", "error", err)
			}
			return s.Err()
		}
	}
	return c
}

// Cost sets the units of a call, 0 … weir.MaxUnits; other numbers end with
// INVALID_ARGUMENT. Default, also for nil: 1.
func Cost(units func(context.Context, *Call) int64) Option {
	return func(c *config) { c.cost = units }
}

// Skip sets a function that reports whether a call passes without a decision, such as a
// health check. It is not counted and has no outcome. Default, also for nil: no call is
// skipped.
func Skip(skip func(context.Context, *Call) bool) Option {
	return func(c *config) { c.skip = skip }
}

// AllowWhenDown lets calls pass uncounted, without OnError, while the store cannot decide. Bad
// input is still rejected: leaving out the metadata must not bypass the limit.
func AllowWhenDown() Option {
	return func(c *config) { c.allowWhenDown = true }
}

// OnDenied sets the error of denied calls. An error of nil lets the call pass. Default, also
// for nil: Outcome.Status.
func OnDenied(f func(context.Context, *Outcome) error) Option {
	return func(c *config) { c.onDenied = f }
}

// OnError sets the error of calls without a decision. An error of nil lets the call pass.
// Default, also for nil:
//   - INVALID_ARGUMENT for a call without a usable key (*KeyError) or with bad input, such as
//     an invalid number of units (weir.ErrInput);
//   - INTERNAL and a line in ErrorLog for a ValueFunc that failed (ErrValue);
//   - the status of a context that has ended;
//   - UNAVAILABLE for all other errors.
func OnError(f func(context.Context, error) error) Option {
	return func(c *config) { c.onError = f }
}

// ErrorLog sets the logger for faults of the program (ErrValue), unless OnError is set,
// and for holds that could not be ended (weir.Concurrency), one line per call. Default, also
// for nil: slog.Default().
func ErrorLog(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.errorLog = log
		}
	}
}
