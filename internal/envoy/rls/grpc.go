package rls

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// maxRequest is the largest request, in bytes: thousands of descriptors.
const maxRequest = 1 << 20

// ageGrace is how long a connection that is too old may take to be left.
const ageGrace = time.Minute

// Services whose health is told: the server, the protocol's name, the reference's.
var healthNames = []string{"", pb.RateLimitService_ServiceDesc.ServiceName, "ratelimit"}

// Listener serves a Service over gRPC, with the gRPC health service beside it.
type Listener struct {
	server *grpc.Server
	health *health.Server
	conns  *arrivals
}

// Gate lets requests in. Questions about health pass by it.
type Gate interface {
	// Enter may refuse a request with a gRPC status. If it does not, Leave follows.
	Enter(ctx context.Context) error
	Leave()
}

// NewListener returns a listener that serves nothing yet. With config it speaks TLS;
// with gate, which may be nil, requests have to pass that.
func NewListener(s *Service, config *tls.Config, gate Gate) *Listener {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxConcurrentStreams(10_000),
		grpc.ConnectionTimeout(10 * time.Second),
		// Goroutines that stay spare each request the growth of a new stack.
		grpc.NumStreamWorkers(uint32(4 * runtime.GOMAXPROCS(0))),
		// Proxies that ping idle connections are told to go away by default.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if age := s.options.MaxConnectionAge; age > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: age, MaxConnectionAgeGrace: ageGrace}))
	}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	l := &Listener{grpc.NewServer(options...), health.NewServer(), newArrivals()}
	l.server.RegisterService(&serviceDesc, &guarded{service: s, gate: gate, requests: sync.Pool{New: func() any { return new(request) }}})
	grpc_health_v1.RegisterHealthServer(l.server, l.health)
	for _, name := range healthNames {
		l.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	return l
}

// guarded is a service behind a gate.
type guarded struct {
	service  *Service
	gate     Gate      // nil = open
	requests sync.Pool // of *request
}

// call answers a request, if the gate lets it in.
func (g *guarded) call(ctx context.Context, r *request) (wire, error) {
	if g.gate != nil {
		if err := g.gate.Enter(ctx); err != nil {
			return nil, err
		}
		defer g.gate.Leave()
	}
	return g.service.answerWire(ctx, &r.RateLimitRequest)
}

// Serve answers requests until on is closed or Drain is called; then it returns nil. It
// is called once, and before Drain.
func (l *Listener) Serve(on net.Listener) error {
	l.conns.Listener = on
	if err := l.server.Serve(l.conns); err != nil {
		return fmt.Errorf("rls: cannot accept connections: %w", err)
	}
	return nil
}

// NotServing tells who asks for health that the server is about to stop. Requests
// are still answered: proxies need a moment to go elsewhere.
func (l *Listener) NotServing() { l.health.Shutdown() }

// Drain takes no more connections, asks clients to open no more streams on theirs,
// and waits until those that are open have been answered, or ctx is done; the rest
// is cut off, of which the error tells. Whoever has connected may still ask, but those
// who say nothing for a second are let go.
func (l *Listener) Drain(ctx context.Context) error {
	for l.conns.unseen() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	defer time.AfterFunc(settle, l.conns.closeSilent).Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.server.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		l.conns.closeAll()
		l.server.Stop()
		<-done
		return ctx.Err()
	}
}
