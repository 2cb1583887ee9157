package envoy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Bounds of the memory and time that gRPC spends on one client.
const (
	maxMessage = 64 << 10 // bytes of a request: hundreds of descriptors
	maxHeaders = 16 << 10 // bytes of a header list
	maxFields  = 64       // names in a header list: each takes memory beside its bytes
	maxStreams = 256      // of one connection at once
	window     = 64 << 10 // bytes that may be on their way to one stream
	connWindow = 1 << 20  // and to all streams of one connection, which are read at once
	readBuffer = 8 << 10
	idleTime   = 2 * time.Minute
)

// ageGrace is how long a connection that is too old may take to be left.
const ageGrace = time.Minute

// Listener serves a Service over gRPC, with the gRPC health service beside it.
type Listener struct {
	server *grpc.Server
	health *healths
	gate   Gate // nil = open
	conns  *arrivals
}

// Gate lets requests in. Requests for health pass by it.
type Gate interface {
	// Knows may reject a call with a gRPC status, by the address of its connection, its
	// TLS state, nil without TLS, and the authorization fields of its header. Its message
	// has not been read.
	Knows(from net.Addr, state *tls.ConnectionState, authorization []string) error
	// Rejected follows if the call is rejected with this error of Knows.
	Rejected(from net.Addr, err error)
	// Enter may reject a request with a gRPC status. If it does not, Leave follows.
	Enter() error
	Leave()
}

// NewListener returns a listener that serves nothing yet. With config it speaks TLS;
// with gate, which may be nil, requests have to pass that.
func NewListener(s *Service, config *tls.Config, gate Gate) *Listener {
	l := &Listener{health: newHealths(), gate: gate, conns: newArrivals()}
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	keep := keepalive.ServerParameters{MaxConnectionIdle: idleTime}
	if age := s.options.MaxConnectionAge; age > 0 {
		keep.MaxConnectionAge, keep.MaxConnectionAgeGrace = age, ageGrace
	}
	l.server = grpc.NewServer(
		grpc.Creds(handshake{secure}),
		grpc.InTapHandle(l.admit),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		// Windows of a fixed size also spare the pings that measure the bandwidth.
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.SharedWriteBuffer(true),
		grpc.ConnectionTimeout(10*time.Second),
		// Goroutines that stay spare each request the growth of a new stack.
		grpc.NumStreamWorkers(uint32(4*runtime.GOMAXPROCS(0))),
		// Proxies that ping idle connections are told to go away by default.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keep))
	l.server.RegisterService(&serviceDesc, &guarded{service: s, gate: gate, requests: sync.Pool{New: func() any { return new(request) }}})
	grpc_health_v1.RegisterHealthServer(l.server, l.health)
	return l
}

// healthPrefix begins the methods that every caller may use.
var healthPrefix = "/" + grpc_health_v1.Health_ServiceDesc.ServiceName + "/"

// admit rejects calls by their headers, before gRPC keeps anything of them.
func (l *Listener) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	if len(call.Header) > maxFields {
		return reject(ctx, status.Errorf(codes.ResourceExhausted, "the call has %d header fields of different names; send at most %d", len(call.Header), maxFields))
	}
	c, ok := callerOf(ctx)
	if !ok {
		return ctx, nil
	}
	var err error
	if l.gate != nil {
		err = l.gate.Knows(c.conn.RemoteAddr(), c.tls(), call.Header["authorization"])
	}
	switch {
	case err == nil:
		if !c.conn.known.Load() {
			c.conn.known.Store(true)
		}
	case !strings.HasPrefix(call.FullMethodName, healthPrefix):
		c.conn.rejected.CompareAndSwap(0, c.conn.on.of.sweeps.Load())
		l.gate.Rejected(c.conn.RemoteAddr(), err)
		return reject(ctx, err)
	}
	return ctx, nil
}

// callerOf returns the connection of a call.
func callerOf(ctx context.Context) (caller, bool) {
	if p, ok := peer.FromContext(ctx); ok {
		c, ok := p.AuthInfo.(caller)
		return c, ok
	}
	return caller{}, false
}

// reject returns err. A call with a timeout is rejected later, by its handler and before
// its message is read: gRPC keeps the timer of a call that is rejected here.
func reject(ctx context.Context, err error) (context.Context, error) {
	if _, timed := ctx.Deadline(); timed {
		return context.WithValue(ctx, rejection{}, err), nil
	}
	return ctx, err
}

// rejection is the key of the error of a rejected call.
type rejection struct{}

// guarded is a service behind a gate.
type guarded struct {
	service  *Service
	gate     Gate      // nil = open
	requests sync.Pool // of *request
}

// call answers a request, if the gate lets it in.
func (g *guarded) call(ctx context.Context, r *request) (wire, error) {
	if g.gate != nil {
		if err := g.gate.Enter(); err != nil {
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
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go l.conns.sweep(ctx)
	if err := l.server.Serve(l.conns); err != nil {
		return fmt.Errorf("envoy: cannot accept connections: %w", err)
	}
	return nil
}

// NotServing reports by the health service that the server is about to stop. Requests
// are still answered: proxies need a moment to go elsewhere.
func (l *Listener) NotServing() { l.health.Shutdown() }

// Drain accepts no more connections, ends the watches of health, and sends clients
// away. It returns when the calls that were sent have been answered, or ctx is done;
// the error is that of ctx, and reports that calls were cut off. Connected clients have
// a second for another call. Then connections without a call in progress are closed.
func (l *Listener) Drain(ctx context.Context) error {
	l.health.end()
	for l.conns.unseen() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	drained, stop := context.WithCancel(ctx)
	defer stop()
	go l.conns.closeQuiet(drained)
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
