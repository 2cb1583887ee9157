// Package weirgrpc applies the limits of a weir.Limiter to gRPC servers and clients.
//
//	by := weirgrpc.By{"tenant": weirgrpc.Metadata("tenant")}
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(weirgrpc.Unary(limiter, by)),
//		grpc.ChainStreamInterceptor(weirgrpc.Stream(limiter, by)))
//
// A call over the limit ends with RESOURCE_EXHAUSTED, a sentence with the next step, and
// the standard details: RetryInfo with the exact wait, and QuotaFailure with every limit
// that denied the call. The trailer grpc-retry-pushback-ms makes clients with a retry
// policy retry at the right time, or not at all if waiting does not help.
//
// # Trade-off
//
// The caller provides the key of each call by functions; nothing is guessed. A call
// without a key ends with INVALID_ARGUMENT and is never counted together with others. If no
// decision can be made, it ends with UNAVAILABLE, unless [AllowWhenDown] is set. A stream is
// counted when it begins, not for its messages.
package weirgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir"
)

// pushbackTrailer is the wait for clients with a retry policy.
const pushbackTrailer = "grpc-retry-pushback-ms"

// Unary returns an interceptor that passes a call on when l grants it. by names the
// function for each dimension of l's policy. Unary panics if l is not made with weir.New,
// or if the names in by are not the dimensions of its policy: both are mistakes in the
// program.
//
// A limit of kind weir.Concurrency counts a call until its handler returns or panics. If the
// handler runs for longer than the limit's MaxHold, the hold has ended by time; that is one
// line in ErrorLog, and the MaxHold should be longer.
func Unary(l *weir.Limiter, by By, opts ...Option) grpc.UnaryServerInterceptor {
	limit := newLimit("Unary", l, by, opts)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
		trailer := func(md metadata.MD) { grpc.SetTrailer(ctx, md) }
		err = limit.serve(ctx, &Call{Method: info.FullMethod, Request: req}, trailer, func(ctx context.Context) (err error) {
			reply, err = handler(ctx, req)
			return err
		})
		return reply, err
	}
}

// Stream is Unary for streams, which are counted when they begin.
func Stream(l *weir.Limiter, by By, opts ...Option) grpc.StreamServerInterceptor {
	limit := newLimit("Stream", l, by, opts)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return limit.serve(stream.Context(), &Call{Method: info.FullMethod}, stream.SetTrailer, func(ctx context.Context) error {
			return handler(srv, &limitedStream{stream, ctx})
		})
	}
}

// serve decides a call, and passes it to its handler with the outcome in the context. trailer
// sends that of a denial.
func (l *limit) serve(ctx context.Context, c *Call, trailer func(metadata.MD), handle func(context.Context) error) error {
	o, held, err := l.decideCall(ctx, c)
	if err != nil {
		if o != nil {
			trailer(metadata.Pairs(pushbackTrailer, o.pushback()))
		}
		return err
	}
	if o != nil {
		ctx = context.WithValue(ctx, contextKey{}, o)
	}
	if held != nil {
		defer l.end(ctx, held)
	}
	return handle(ctx)
}

// limitedStream is a stream with the outcome in its context.
type limitedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context of the stream, with the outcome.
func (s *limitedStream) Context() context.Context { return s.ctx }
