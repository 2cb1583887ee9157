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

// endpoint is a service behind a gate.
type endpoint struct {
	service *Service
	gate    Gate // nil = open
}

// handle reads a request and returns its answer, if the gate of the endpoint lets it in.
// There are no interceptors.
func handle(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if err := rejectionOf(ctx); err != nil {
		return nil, err
	}
	r := new(pb.RateLimitRequest)
	if err := decode(r); err != nil {
		return nil, err
	}
	e := srv.(*endpoint)
	if e.gate != nil {
		p, _ := peer.FromContext(ctx) // gRPC sets it
		if err := e.gate.Enter(p.Addr); err != nil {
			return nil, err
		}
		defer e.gate.Leave()
	}
	return e.service.answer(ctx, r)
}
