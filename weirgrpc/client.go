package weirgrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir"
)

// UnaryClient returns an interceptor that limits a client's calls before they are sent.
// A call over the limit waits or, with FailFast, ends with RESOURCE_EXHAUSTED as on a
// server. A call also ends at once if its wait is longer than its context allows.
// UnaryClient panics as [Unary] does. Units of a limit of kind weir.Concurrency are held for
// its whole MaxHold, because clients make no reservations (R17).
func UnaryClient(l *weir.Limiter, by By, opts ...Option) grpc.UnaryClientInterceptor {
	held := newLimit("UnaryClient", l, by, opts)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, calls ...grpc.CallOption) error {
		if err := held.wait(ctx, &Call{Method: method, Request: req, client: true}); err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, cc, calls...)
	}
}

// StreamClient is UnaryClient for streams, which are counted when they begin.
func StreamClient(l *weir.Limiter, by By, opts ...Option) grpc.StreamClientInterceptor {
	held := newLimit("StreamClient", l, by, opts)
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, calls ...grpc.CallOption) (grpc.ClientStream, error) {
		if err := held.wait(ctx, &Call{Method: method, client: true}); err != nil {
			return nil, err
		}
		return open(ctx, desc, cc, method, calls...)
	}
}

// wait returns nil when the call may be sent.
func (l *limit) wait(ctx context.Context, c *Call) error {
	if l.skip != nil && l.skip(ctx, c) {
		return nil
	}
	o, err := l.outcome(ctx, c)
	if err == nil && l.failFast {
		err = l.attemptAll(ctx, o)
	} else if err == nil {
		o.Decision, err = l.limiter.WaitN(ctx, o.Key, o.N)
	}
	var given *weir.WaitError
	switch {
	case err == nil && o.Decision.Allowed:
		return nil
	case err == nil:
		return l.onDenied(ctx, o)
	case errors.As(err, &given) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		o.Decision = given.Decision
		return l.onDenied(ctx, o)
	}
	return l.failed(ctx, err)
}

// attemptAll attempts the call, all or nothing: a partial grant is refunded. A call that
// is cancelled before it is sent is not charged.
func (l *limit) attemptAll(ctx context.Context, o *Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.attempt(ctx, o); err != nil {
		return err
	}
	d := &o.Decision
	if part := d.Granted; d.Allowed && part < o.N {
		d.Allowed, d.Granted, d.Remaining = false, 0, d.Remaining+part
		o.States = nil // they are from before the refund
		if !d.Degraded {
			l.limiter.Refund(context.WithoutCancel(ctx), o.Key, d.At, part)
		}
	}
	return nil
}
