package envoy

import (
	"context"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Services with a health: the server, the name of the protocol, that of the reference.
var healthNames = []string{"", pb.RateLimitService_ServiceDesc.ServiceName, "ratelimit"}

// maxWatches bounds the watches of connections without an authorized call.
const maxWatches = 256

// healths is gRPC's health service. It requires no token, so it stores nothing about
// unknown names, bounds the watches of strangers, and ends all when the server drains.
type healths struct {
	*health.Server
	strange atomic.Int64 // watches of strangers
	ending  context.Context
	end     context.CancelFunc
}

func newHealths() *healths {
	h := &healths{Server: health.NewServer()}
	h.ending, h.end = context.WithCancel(context.Background())
	for _, name := range healthNames {
		h.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	return h
}

// Watch reports the health of a known service until the server drains.
func (h *healths) Watch(r *grpc_health_v1.HealthCheckRequest, to grpc_health_v1.Health_WatchServer) error {
	if _, err := h.Check(to.Context(), r); err != nil {
		return err
	}
	if c, ok := callerOf(to.Context()); ok && !c.conn.known.Load() {
		defer h.strange.Add(-1)
		if h.strange.Add(1) > maxWatches {
			return status.Errorf(codes.ResourceExhausted, "more than %d health watches without a token; use Check, or send the token", maxWatches)
		}
	}
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	defer context.AfterFunc(h.ending, cancel)()
	err := h.Server.Watch(r, watcher{to, ctx})
	if h.ending.Err() != nil {
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
