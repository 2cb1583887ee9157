package weirgrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir"
)

// UnaryClient returns an interceptor that holds a client's calls to l before they
// are sent: they wait for their turn or, with FailFast, end with RESOURCE_EXHAUSTED
// as a server's would. A call whose turn cannot come before its context ends does
// so at once. UnaryClient panics as [Unary] does.
func UnaryClient(l *weir.Limiter, by By, opts ...Option) grpc.UnaryClientInterceptor {
	held := newLimit("UnaryClient", l, by, opts)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, calls ...grpc.CallOption) error {
		if err := held.wait(ctx, &Call{Method: method, Request: req, client: true}); err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, cc, calls...)
	}
}

// StreamClient is UnaryClient for streams, which are held when they begin.
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
	o, err := l.asked(ctx, c)
	if err == nil && l.failFast {
		err = l.try(ctx, o)
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

// try attempts the call, all of it or nothing: a part is of no use, and is given back.
// What is cancelled before it is sent is not charged.
func (l *limit) try(ctx context.Context, o *Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.attempt(ctx, o); err != nil {
		return err
	}
	d := &o.Decision
	if part := d.Granted; d.Allowed && part < o.N {
		d.Allowed, d.Granted, d.Remaining = false, 0, d.Remaining+part
		o.States = nil // they are of before it is given back
		if !d.Degraded {
			l.limiter.Refund(context.WithoutCancel(ctx), o.Key, d.At, part)
		}
	}
	return nil
}
