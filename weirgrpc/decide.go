package weirgrpc

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// limit is what interceptors have in common.
type limit struct {
	limiter *weir.Limiter
	keys    keyReader
	config
}

// newLimit panics as newKeyReader does.
func newLimit(caller string, l *weir.Limiter, by By, opts []Option) *limit {
	return &limit{limiter: l, keys: newKeyReader(caller, l, by), config: settle(opts)}
}

// asked is whom a call is counted for, and for how much.
func (l *limit) asked(ctx context.Context, c *Call) (*Outcome, error) {
	key, err := l.keys.read(ctx, c)
	if err != nil {
		return nil, err
	}
	o := &Outcome{Plan: l.limiter.Plan(), Key: key, N: 1}
	if l.cost != nil {
		o.N = l.cost(ctx, c)
	}
	return o, nil
}

// decide attempts a call. The charge is made even if the client has gone: a call
// that is cancelled at once must not be free. o is nil for a call that passes
// uncounted, and err is what a call that does not pass ends with.
func (l *limit) decide(ctx context.Context, c *Call) (o *Outcome, err error) {
	if o, err = l.asked(ctx, c); err == nil {
		err = l.attempt(context.WithoutCancel(ctx), o)
	}
	switch {
	case err != nil:
		return nil, l.failed(ctx, err)
	case !o.Decision.Allowed:
		return o, l.onDenied(ctx, o)
	}
	return o, nil
}

// attempt decides what was asked.
func (l *limit) attempt(ctx context.Context, o *Outcome) (err error) {
	o.States = make([]weir.LimitState, len(o.Plan.Limits()))
	o.Decision, err = l.limiter.Decide(ctx, o.Key, weir.Request{Op: weir.OpAttempt, N: o.N, At: weir.Now, States: o.States})
	return err
}

// failed is what a call ends with for which no decision could be made; nil if it
// passes.
func (l *limit) failed(ctx context.Context, err error) error {
	if l.failOpen && !badInput(err) && !errors.Is(err, ErrValue) && ctx.Err() == nil {
		return nil
	}
	return l.onError(ctx, err)
}

// badInput reports errors that come from the call (R14), not from the store.
func badInput(err error) bool {
	var k *KeyError
	return errors.As(err, &k) || answer.IsBadInput(err)
}

// statusOf is the default of OnError. The text of an error that is not the client's is
// not sent: it may hold secrets.
func statusOf(err error) *status.Status {
	var k *KeyError
	switch {
	case errors.As(err, &k):
		return status.New(codes.InvalidArgument, k.Problem)
	case errors.Is(err, ErrValue):
		slog.Error("a call ended with INTERNAL: the program could not read its key", "error", err)
		return status.New(codes.Internal, "the server failed to read the key that the call is counted by; its log has the cause")
	case badInput(err):
		return status.New(codes.InvalidArgument, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err)
	}
	return status.New(codes.Unavailable, "no decision could be made, so the call was refused and not counted; try again later")
}
