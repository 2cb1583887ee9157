package envoy

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Names with a health status: the server, the protocol's service, the reference's name.
var healthNames = []string{"", pb.RateLimitService_ServiceDesc.ServiceName, "ratelimit"}

// healthService is gRPC's health service. It requires no token, so it stores nothing
// about unknown names, and it ends all watches when the server drains.
type healthService struct {
	*health.Server
	draining context.Context
	end      context.CancelFunc
}

func newHealthService() *healthService {
	h := &healthService{Server: health.NewServer()}
	h.draining, h.end = context.WithCancel(context.Background())
	for _, name := range healthNames {
		h.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	return h
}

// Check reports the health of a known service.
func (h *healthService) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	defer begin(ctx)()
	return h.Server.Check(ctx, r)
}

// Watch reports the health of a known service until the server drains.
func (h *healthService) Watch(r *grpc_health_v1.HealthCheckRequest, to grpc_health_v1.Health_WatchServer) error {
	defer begin(to.Context())()
	if _, err := h.Server.Check(to.Context(), r); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	defer context.AfterFunc(h.draining, cancel)()
	err := h.Server.Watch(r, watcher{to, ctx})
	if h.draining.Err() != nil {
		return status.Error(codes.Unavailable, "the server drains; watch another one")
	}
	return err
}

// watcher is a watch with a context of its own.
type watcher struct {
	grpc_health_v1.Health_WatchServer
	ctx context.Context
}

// Context returns the context of the watch.
func (w watcher) Context() context.Context { return w.ctx }
