package envoy

import (
	"context"
	"crypto/tls"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// Gate authorizes calls and bounds requests in flight. Health requests need neither.
type Gate interface {
	// Authorize reports whether a call is authorized, by the address of its connection, its
	// TLS state, nil without TLS, and the authorization fields of its header. Its message
	// has not been read.
	Authorize(from net.Addr, state *tls.ConnectionState, authorization []string) bool
	// Rejected records a call that is not authorized, and returns the gRPC status for it.
	Rejected(from net.Addr) error
	// Enter follows when the message of an authorized call has been read. It may reject the
	// call with a gRPC status. If it does not, Leave follows.
	Enter(from net.Addr) error
	Leave()
}

// healthPrefix begins the methods that need no authorization.
var healthPrefix = "/" + grpc_health_v1.Health_ServiceDesc.ServiceName + "/"

// callCost is the memory for a call without its message: a stack, a stream.
const callCost = 8 << 10

// admit rejects calls by their headers, before gRPC buffers anything of them. A health
// call that is not authorized takes from the allowance of its connection until it is
// answered.
func (l *Listener) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	if len(call.Header) > maxFields {
		return reject(ctx, status.Errorf(codes.ResourceExhausted, "the call has %d header fields of different names; send at most %d", len(call.Header), maxFields))
	}
	if l.gate == nil {
		return ctx, nil
	}
	p, _ := peer.FromContext(ctx) // gRPC sets it
	if l.gate.Authorize(p.Addr, stateOf(p), call.Header["authorization"]) {
		return ctx, nil
	}
	if strings.HasPrefix(call.FullMethodName, healthPrefix) {
		if !listen.ConnFrom(p.Addr).Spend(callCost) {
			return reject(ctx, status.Error(codes.ResourceExhausted, "too many calls without a token or certificate on this connection"))
		}
		return context.WithValue(ctx, stranger{}, p.Addr), nil
	}
	return reject(ctx, l.gate.Rejected(p.Addr))
}

// stateOf returns the state of TLS of a client, or nil.
func stateOf(p *peer.Peer) *tls.ConnectionState {
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		return &info.State
	}
	return nil
}

// stranger is the context key of the address of a health call that is not authorized.
type stranger struct{}

// begin admits the connection of an authorized health call. Its message has been read.
// end follows when the call ends; it gives back what the call of a stranger took from the
// allowance of its connection.
func begin(ctx context.Context) (end func()) {
	if from, ok := ctx.Value(stranger{}).(net.Addr); ok {
		return func() { listen.ConnFrom(from).Spend(-callCost) }
	}
	if p, ok := peer.FromContext(ctx); ok {
		listen.ConnFrom(p.Addr).Admit()
	}
	return func() {}
}

// reject returns err. A call with a deadline is rejected later, by its handler and
// before its message is read: gRPC keeps the timer of a call that is rejected here.
func reject(ctx context.Context, err error) (context.Context, error) {
	if _, timed := ctx.Deadline(); timed {
		return context.WithValue(ctx, rejection{}, err), nil
	}
	return ctx, err
}

// rejection is the context key of the error of a rejected call with a deadline.
type rejection struct{}

// rejectionOf returns the error of a rejected call, or nil.
func rejectionOf(ctx context.Context) error {
	if _, timed := ctx.Deadline(); !timed {
		return nil
	}
	err, _ := ctx.Value(rejection{}).(error)
	return err
}
