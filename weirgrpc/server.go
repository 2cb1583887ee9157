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
func Unary(l *weir.Limiter, by By, opts ...Option) grpc.UnaryServerInterceptor {
	held := newLimit("Unary", l, by, opts)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		o, err := held.decide(ctx, &Call{Method: info.FullMethod, Request: req})
		if err != nil {
			if o != nil {
				grpc.SetTrailer(ctx, metadata.Pairs(pushbackTrailer, o.pushback()))
			}
			return nil, err
		}
		if o != nil {
			ctx = context.WithValue(ctx, contextKey{}, o)
		}
		return handler(ctx, req)
	}
}

// Stream is Unary for streams, which are counted when they begin; see EachMessage.
func Stream(l *weir.Limiter, by By, opts ...Option) grpc.StreamServerInterceptor {
	held := newLimit("Stream", l, by, opts)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		s := &limitedStream{ServerStream: stream, ctx: stream.Context(), method: info.FullMethod, limit: held}
		o, err := s.decide(nil)
		if err != nil {
			return err
		}
		if o != nil {
			s.ctx = context.WithValue(s.ctx, contextKey{}, o)
		}
		return handler(srv, s)
	}
}

// limitedStream is a stream with the outcome in its context.
type limitedStream struct {
	grpc.ServerStream
	ctx    context.Context
	method string
	limit  *limit
}

// Context returns the context of the stream, with the outcome.
func (s *limitedStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message and, with EachMessage, counts it.
func (s *limitedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.limit.eachMessage {
		return err
	}
	_, err := s.decide(m)
	return err
}

func (s *limitedStream) decide(message any) (*Outcome, error) {
	o, err := s.limit.decide(s.ctx, &Call{Method: s.method, Request: message})
	if err != nil && o != nil {
		s.SetTrailer(metadata.Pairs(pushbackTrailer, o.pushback()))
	}
	return o, err
}
