package envoy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// Bounds of the memory and time that gRPC spends on one client. A connection that is not
// admitted is bounded by Allowance as well.
const (
	maxMessage = 64 << 10 // bytes of a request: hundreds of descriptors
	maxHeaders = 16 << 10 // bytes of a header list
	maxFields  = 32       // names in a header list: each takes memory beside its bytes
	maxStreams = 100      // concurrent streams of one connection
	window     = 64 << 10 // bytes in flight to one stream
	connWindow = 1 << 20  // bytes in flight to all streams of one connection
	readBuffer = 8 << 10
	idleTime   = 2 * time.Minute
)

// Allowance is the number of bytes that a connection may send before its first authorized
// call is complete: the largest header list and message, the handshake of TLS, and a
// burst of further calls.
const Allowance = 96 << 10

// ageGrace is the time that calls have to finish on a connection that is too old.
const ageGrace = time.Minute

// Listener serves a Service over gRPC, with the gRPC health service beside it.
type Listener struct {
	service *Service
	server  *grpc.Server
	health  *healthService
	gate    Gate // nil = every call is authorized
}

// NewListener returns a listener that does not serve yet. config enables TLS; nil is
// plain text. gate may be nil.
func NewListener(s *Service, config *tls.Config, gate Gate) *Listener {
	l := &Listener{service: s, health: newHealthService(), gate: gate}
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	keep := keepalive.ServerParameters{MaxConnectionIdle: idleTime}
	if age := s.options.MaxConnectionAge; age > 0 {
		keep.MaxConnectionAge, keep.MaxConnectionAgeGrace = age, ageGrace
	}
	l.server = grpc.NewServer(
		grpc.Creds(secure),
		grpc.InTapHandle(l.admit),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		// Windows of a fixed size also avoid the pings that measure the bandwidth.
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(10*time.Second),
		// A pool of goroutines avoids the growth of a new stack for each request.
		grpc.NumStreamWorkers(uint32(4*runtime.GOMAXPROCS(0))),
		// By default gRPC closes the connections of proxies that ping while idle.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keep))
	l.server.RegisterService(&serviceDesc, l)
	grpc_health_v1.RegisterHealthServer(l.server, l.health)
	return l
}

// Serve answers requests until on is closed or Drain is called; then it returns nil. It
// is called once, and before Drain.
func (l *Listener) Serve(on net.Listener) error {
	if err := l.server.Serve(on); err != nil {
		return fmt.Errorf("envoy: cannot accept connections: %w", err)
	}
	return nil
}

// NotServing makes the health service report that the server is about to stop. Requests
// are still answered: proxies need a moment to switch to other servers.
func (l *Listener) NotServing() { l.health.Shutdown() }

// Drain accepts no more connections, ends health watches, and has gRPC send GOAWAY. It
// returns when all calls that were sent have been answered and the connections are closed,
// or ctx is done; its error is that of ctx, and reports that calls were cut off.
func (l *Listener) Drain(ctx context.Context) error {
	l.health.end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.server.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		l.server.Stop()
		<-done
		return ctx.Err()
	}
}
