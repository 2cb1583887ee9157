package weirgrpc

import (
	"context"
)

// Option adjusts interceptors.
type Option func(*config)

type config struct {
	cost        func(context.Context, *Call) int64
	failOpen    bool
	failFast    bool
	eachMessage bool
	onDenied    func(context.Context, *Outcome) error
	onError     func(context.Context, error) error
}

// settle applies the options and fills in the defaults.
func settle(opts []Option) config {
	c := config{
		onDenied: func(_ context.Context, o *Outcome) error { return o.Status().Err() },
		onError:  func(_ context.Context, err error) error { return statusOf(err).Err() },
	}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Cost says how many units a call asks for, 0 … weir.MaxUnits; anything else ends
// with INVALID_ARGUMENT. Default, also for nil: 1.
func Cost(units func(context.Context, *Call) int64) Option {
	return func(c *config) { c.cost = units }
}

// FailOpen lets calls pass uncounted while the store cannot decide, instead of
// OnError. Bad input stays refused: otherwise leaving out the metadata would be a
// way around the limit.
func FailOpen() Option {
	return func(c *config) { c.failOpen = true }
}

// EachMessage also counts every message that a stream receives, besides its
// beginning. One over the limit ends the stream. It has no effect on unary calls
// and on clients.
func EachMessage() Option {
	return func(c *config) { c.eachMessage = true }
}

// FailFast makes a client's call that is over the limit end at once. Otherwise it
// waits, until its context ends, and gives up at once when that would be too soon.
// It has no effect on servers, which never wait.
func FailFast() Option {
	return func(c *config) { c.failFast = true }
}

// OnDenied makes the error of refused calls in place of Outcome.Status. An error of
// nil lets the call pass. nil is no option at all.
func OnDenied(f func(context.Context, *Outcome) error) Option {
	return func(c *config) {
		if f != nil {
			c.onDenied = f
		}
	}
}

// OnError makes the error of calls for which no decision could be made. Default:
// INVALID_ARGUMENT for a call without a usable key (*KeyError, weir.ErrKey) or with an
// invalid number of units (weir.ErrUnits), INTERNAL and a log line for a ValueFunc that
// failed (ErrValue), the status of a context that has ended, and UNAVAILABLE for
// everything else. An error of nil lets the call pass. nil is no
// option at all.
func OnError(f func(context.Context, error) error) Option {
	return func(c *config) {
		if f != nil {
			c.onError = f
		}
	}
}
