package envoy

import (
	"context"
	"crypto/tls"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Gate authorizes calls and bounds requests in flight. Health requests need neither.
type Gate interface {
	// Authorize may reject a call with a gRPC status, by the address of its connection, its
	// TLS state, nil without TLS, and the authorization fields of its header. Its message
	// has not been read.
	Authorize(from net.Addr, state *tls.ConnectionState, authorization []string) error
	// Rejected follows if the call is rejected with this error of Authorize.
	Rejected(from net.Addr, err error)
	// Enter may reject a request with a gRPC status. If it does not, Leave follows.
	Enter() error
	Leave()
}

// healthPrefix begins the methods that need no authorization.
var healthPrefix = "/" + grpc_health_v1.Health_ServiceDesc.ServiceName + "/"

// admit rejects calls by their headers, before gRPC buffers anything of them.
func (l *Listener) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	if len(call.Header) > maxFields {
		return reject(ctx, status.Errorf(codes.ResourceExhausted, "the call has %d header fields of different names; send at most %d", len(call.Header), maxFields))
	}
	if l.gate == nil {
		return ctx, nil
	}
	c, ok := peerOf(ctx)
	if !ok {
		return ctx, nil
	}
	from := c.conn.RemoteAddr()
	err := l.gate.Authorize(from, c.tls(), call.Header["authorization"])
	if err == nil {
		c.conn.authorized()
		return ctx, nil
	}
	if strings.HasPrefix(call.FullMethodName, healthPrefix) {
		return ctx, nil
	}
	c.conn.rejectedCall()
	l.gate.Rejected(from, err)
	return reject(ctx, err)
}

// peerOf returns the connection of a call.
func peerOf(ctx context.Context) (authInfo, bool) {
	if p, ok := peer.FromContext(ctx); ok {
		c, ok := p.AuthInfo.(authInfo)
		return c, ok
	}
	return authInfo{}, false
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
