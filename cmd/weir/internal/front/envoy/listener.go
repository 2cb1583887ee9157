package envoy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
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

// Allowance is the number of bytes that a connection may send before its first authorized call
// is complete. It fits the largest header list and message, the handshake of TLS, and a burst
// of further calls. The header lists of unauthorized calls count a second time, without
// compression.
const Allowance = 96 << 10

// ageGrace is the time for calls to finish on a connection that has reached its maximum age.
const ageGrace = time.Minute

// Listener serves a Service over gRPC, together with the gRPC health service.
type Listener struct {
	service *Service
	server  *grpc.Server
	health  *healthService
	access  *Access
}

// NewListener returns a listener that does not serve yet. If config is nil, it has no TLS.
func NewListener(s *Service, config *tls.Config, access *Access) *Listener {
	l := &Listener{service: s, health: newHealthService(), access: access}
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	keep := keepalive.ServerParameters{MaxConnectionIdle: idleTime}
	if age := s.options.MaxConnectionAge; age > 0 {
		keep.MaxConnectionAge = age
		keep.MaxConnectionAgeGrace = ageGrace
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
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             5 * time.Second,
			PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keep))
	l.server.RegisterService(&serviceDesc, l)
	grpc_health_v1.RegisterHealthServer(l.server, l.health)
	return l
}

// Serve answers requests until on is closed or Drain is called. It then returns nil. It is
// called once, before Drain.
func (l *Listener) Serve(on net.Listener) error {
	if err := l.server.Serve(on); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("envoy: cannot accept connections: %w", err)
	}
	return nil
}

// NotServing makes the health service report that the server is about to stop. Requests
// are still answered: proxies need a moment to switch to other servers.
func (l *Listener) NotServing() { l.health.Shutdown() }

// Drain accepts no more connections, ends health watches, and sends GOAWAY. It returns when all
// calls are answered and the connections are closed. If ctx is done earlier, it cuts off the
// calls and returns the error of ctx.
func (l *Listener) Drain(ctx context.Context) error {
	l.health.end()
	inTime := context.AfterFunc(ctx, l.server.Stop)
	l.server.GracefulStop() // returns after Stop, too
	if inTime() {
		return nil
	}
	return ctx.Err()
}

// Access authorizes calls and bounds the requests in flight. Health calls need no authorization
// and are not bounded.
type Access struct {
	Token        *listen.Secret  // authorizes calls; nil = none
	TLS          *listen.TLS     // its client certificates authorize calls; nil = none
	Capacity     *calls.Capacity // bounds the requests in flight
	Unauthorized *atomic.Int64   // counts rejected calls
}

// Private reports whether callers must authenticate.
func (a *Access) Private() bool { return a.Token != nil || a.TLS != nil }

// authorized reports whether a call has the token or a certificate, if one of them is required.
// The message of the call has not been read yet.
func (a *Access) authorized(p *peer.Peer, authorization []string) bool {
	if !a.Private() {
		return true
	}
	info, isTLS := p.AuthInfo.(credentials.TLSInfo)
	if isTLS && a.TLS != nil && a.TLS.Verified(listen.ConnFrom(p.Addr), &info.State) {
		return true
	}
	return slices.ContainsFunc(authorization, func(field string) bool {
		return a.Token.Matches(listen.Bearer(field))
	})
}

var (
	errUnauthenticated = status.Error(codes.Unauthenticated,
		"authentication required: the bearer token is missing or wrong; "+
			"send the metadata authorization: Bearer TOKEN, with the token of weir")
	errNoSlot = status.Error(codes.ResourceExhausted,
		"too many open connections; try again in a second")
	errBusy = status.Error(codes.ResourceExhausted,
		"too many requests in flight; try again in a second")
)

// healthPrefix begins the methods that need no authorization.
var healthPrefix = "/" + grpc_health_v1.Health_ServiceDesc.ServiceName + "/"

// callCost is the memory of a call without its message, for its stack and its stream.
const callCost = 8 << 10

// admit rejects calls by their headers, before gRPC buffers anything of them. An unauthorized
// health call uses a part of its connection's allowance until it is answered.
func (l *Listener) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	p, _ := peer.FromContext(ctx) // gRPC sets it
	authorized := l.access.authorized(p, call.Header["authorization"])
	if !authorized {
		listen.ConnFrom(p.Addr).Spend(headerBytes(call))
	}
	switch {
	case len(call.Header) > maxFields:
		return reject(ctx, status.Errorf(codes.ResourceExhausted,
			"the call has %d header fields of different names; send at most %d",
			len(call.Header), maxFields))
	case authorized:
		return ctx, nil
	}
	if strings.HasPrefix(call.FullMethodName, healthPrefix) {
		if !listen.ConnFrom(p.Addr).Spend(callCost) {
			return reject(ctx, status.Error(codes.ResourceExhausted,
				"too many calls without a token or certificate on this connection"))
		}
		return context.WithValue(ctx, stranger{}, p.Addr), nil
	}
	// The connection is closed unless a call with the token or a certificate follows in time.
	l.access.Unauthorized.Add(1)
	listen.ConnFrom(p.Addr).Demote()
	return reject(ctx, errUnauthenticated)
}

// headerBytes returns the memory of the header list of a call. An unauthenticated connection
// spends it, because compression can make a list of 16 KiB from a few bytes.
func headerBytes(call *tap.Info) (n int) {
	const entry = 32 // the overhead of a field that HTTP/2 counts
	n = len(call.FullMethodName) + entry
	for name, values := range call.Header {
		for _, v := range values {
			n += len(name) + len(v) + entry
		}
	}
	return n
}

// stranger is the context key of the address of an unauthorized health call.
type stranger struct{}

// begin admits the connection of an authorized health call, after its message was read. end
// must be called when the call ends. It returns the allowance of an unauthorized call to its
// connection.
func begin(ctx context.Context) (end func()) {
	if from, ok := ctx.Value(stranger{}).(net.Addr); ok {
		return func() { listen.ConnFrom(from).Spend(-callCost) }
	}
	if p, ok := peer.FromContext(ctx); ok {
		listen.ConnFrom(p.Addr).Admit()
	}
	return func() {}
}

// reject rejects a call with err. A call with a deadline is rejected later, by its handler and
// before its message is read. gRPC would keep the timer of a call that is rejected here.
func reject(ctx context.Context, err error) (context.Context, error) {
	if _, timed := ctx.Deadline(); timed {
		return context.WithValue(ctx, rejection{}, err), nil
	}
	return ctx, err
}

// rejection is the context key of the error of a rejected call with a deadline.
type rejection struct{}

// serviceDesc is the protocol's service with a handler that rejects calls before it decodes
// their messages.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: pb.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}},
	Metadata:    pb.RateLimitService_ServiceDesc.Metadata,
}

// handle reads a request and returns its answer, unless admit has rejected the call or too many
// requests are in flight. It admits the connection. There are no interceptors.
func handle(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if err, rejected := ctx.Value(rejection{}).(error); rejected {
		return nil, err
	}
	r := new(pb.RateLimitRequest)
	if err := decode(r); err != nil {
		return nil, err
	}
	l := srv.(*Listener)
	p, _ := peer.FromContext(ctx) // gRPC sets it
	if !listen.ConnFrom(p.Addr).Admit() {
		l.access.Capacity.Rejected.Add(1)
		return nil, errNoSlot
	}
	var answered *pb.RateLimitResponse
	err := l.access.Capacity.Do(func() (err error) {
		answered, err = l.service.answer(ctx, r)
		return err
	})
	if err == calls.ErrBusy {
		err = errBusy
	}
	return answered, err
}

// healthNames are the names with a health status: the server, the protocol's service, and the name
// in the reference service.
var healthNames = []string{"", pb.RateLimitService_ServiceDesc.ServiceName, "ratelimit"}

// healthService is gRPC's health service. It requires no token, so it stores nothing about
// unknown names. It ends all watches when the server drains.
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

// watcher is a watch with its own context.
type watcher struct {
	grpc_health_v1.Health_WatchServer
	ctx context.Context
}

// Context returns the context of the watch.
func (w watcher) Context() context.Context { return w.ctx }
