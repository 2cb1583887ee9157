package weirgrpc

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/keyby"
)

// limit is the common part of the interceptors.
type limit struct {
	limiter *weir.Limiter
	values  []ValueFunc // in the order of the policy's dimensions
	config
}

// newLimit panics as keyby.Functions does.
func newLimit(caller string, l *weir.Limiter, by By, opts []Option) *limit {
	return &limit{limiter: l, values: keyby.Functions("weirgrpc: "+caller, l, by), config: newConfig(opts)}
}

// outcome returns the outcome of a call before its decision, with its key and units.
func (l *limit) outcome(ctx context.Context, c *Call) (*Outcome, error) {
	key, err := readKey(ctx, c, l.limiter.Compiled(), l.values)
	if err != nil {
		return nil, err
	}
	o := &Outcome{Compiled: l.limiter.Compiled(), Key: key, N: 1}
	if l.cost != nil {
		o.N = l.cost(ctx, c)
	}
	return o, nil
}

// decideCall attempts a call. It charges even after the client has hung up: a call that is
// cancelled at once must not be free. o is nil for a call that passes uncounted; err is
// the final error of a call that does not pass. held is nil unless a hold must be ended.
func (l *limit) decideCall(ctx context.Context, c *Call) (o *Outcome, held *weir.Reservation, err error) {
	if l.skip != nil && l.skip(ctx, c) {
		return nil, nil, nil
	}
	if o, err = l.outcome(ctx, c); err == nil {
		held, err = l.reserve(context.WithoutCancel(ctx), o)
	}
	switch {
	case err != nil:
		return nil, nil, l.failed(ctx, err)
	case !o.Decision.Allowed:
		return o, nil, l.onDenied(ctx, o)
	}
	return o, held, nil
}

// reserve is attempt, with a reservation if the policy has a limit of kind Concurrency.
func (l *limit) reserve(ctx context.Context, o *Outcome) (held *weir.Reservation, err error) {
	if o.Compiled.Holds == nil {
		return nil, l.attempt(ctx, o)
	}
	o.States = make([]weir.LimitState, len(o.Compiled.Limits))
	held, o.Decision, err = l.limiter.Reserve(ctx, o.Key, weir.Request{N: o.N, States: o.States})
	return held, err
}

// end ends a hold.
func (l *limit) end(ctx context.Context, held *weir.Reservation) {
	if err := held.Done(context.WithoutCancel(ctx)); err != nil {
		l.errorLog.Warn("the hold of a call could not be ended; it ends by time", "policy", l.limiter.Compiled().Name, "error", err)
	}
}

// attempt decides an outcome.
func (l *limit) attempt(ctx context.Context, o *Outcome) (err error) {
	o.States = make([]weir.LimitState, len(o.Compiled.Limits))
	o.Decision, err = l.limiter.Decide(ctx, o.Key, weir.Request{Op: weir.OpAttempt, N: o.N, States: o.States})
	return err
}

// failed returns the final error of a call without a decision; nil if the call passes.
func (l *limit) failed(ctx context.Context, err error) error {
	if l.allowWhenDown && ctx.Err() == nil {
		switch toStatus(err).Code() {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled: // of the store
			return nil
		}
	}
	return l.onError(ctx, err)
}

// errorCodes are the codes of errors, by the first that an error wraps. Bad input (R14) and
// ends of a context keep the error's own text. That of another error is not sent: it may hold
// secrets.
var errorCodes = []answer.ForError[codes.Code]{
	answer.For(ErrValue, codes.Internal, "the server failed to read the key that the call is counted by; its log has the cause"),
	answer.For(weir.ErrInput, codes.InvalidArgument, ""),
	answer.For(weir.ErrOverflow, codes.InvalidArgument, ""),
	answer.For(context.DeadlineExceeded, codes.DeadlineExceeded, ""),
	answer.For(context.Canceled, codes.Canceled, ""),
	answer.For(weir.ErrOutcomeUnknown, codes.Unavailable, "the store did not answer, so the call was denied; it may have been counted; try again later"),
	answer.For(nil, codes.Unavailable, "no decision could be made, so the call was denied and not counted; try again later"), // of the store
}

// toStatus returns the status of an error.
func toStatus(err error) *status.Status {
	var k *KeyError
	if errors.As(err, &k) {
		return status.New(codes.InvalidArgument, k.Problem)
	}
	return status.New(answer.ToError(err, errorCodes))
}

// statusOf is the default of OnError.
func statusOf(err error, log *slog.Logger) *status.Status {
	s := toStatus(err)
	if s.Code() == codes.Internal {
		log.Error("a call ended with INTERNAL: the program could not read its key", "error", err)
	}
	return s
}
