package envoy

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// serviceDesc is the protocol's service with a handler that rejects calls before it decodes
// their messages.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: pb.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}},
	Metadata:    pb.RateLimitService_ServiceDesc.Metadata,
}

// handle reads a request and returns its answer, if the gate of the listener lets it in.
// There are no interceptors.
func handle(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if err := rejectionOf(ctx); err != nil {
		return nil, err
	}
	r := new(pb.RateLimitRequest)
	if err := decode(r); err != nil {
		return nil, err
	}
	l := srv.(*Listener)
	if l.gate != nil {
		p, _ := peer.FromContext(ctx) // gRPC sets it
		if err := l.gate.Enter(p.Addr); err != nil {
			return nil, err
		}
		defer l.gate.Leave()
	}
	return l.service.answer(ctx, r)
}
