package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/listen"
)

// rpc is the gRPC listener.
type rpc struct {
	server   *Server
	address  listen.Address
	tls      *tls.Config // nil without TLS
	calls    *envoy.Listener
	listener *listen.Listener // nil until open
	done     chan struct{}    // closed when calls has left the listener
}

// newRPC makes the gRPC listener, not open yet; nil if none is configured.
func (s *Server) newRPC() (*rpc, error) {
	if s.config.GRPCListen == "" {
		return nil, nil
	}
	r := &rpc{server: s, done: make(chan struct{})}
	var err error
	if r.address, err = listen.Parse(s.config.GRPCListen); err != nil {
		return nil, fmt.Errorf("weir: cannot listen: --grpc-listen: %w", err)
	}
	if s.config.TLS != nil && !r.address.IsUnix() {
		r.tls = s.config.TLS.Config("h2")
	}
	r.calls = envoy.NewListener(s.envoy, r.tls, r)
	return r, nil
}

// Authorize rejects calls with neither the token nor a certificate, where one of them is
// required, and calls on a connection without a slot.
func (r *rpc) Authorize(from net.Addr, state *tls.ConnectionState, authorization []string) error {
	conn := listen.ConnFrom(from)
	if !r.shows(conn, state, authorization) {
		return errUnauthenticated
	}
	if !conn.Admit() {
		r.server.capacity.Reject()
		return errNoSlot
	}
	return nil
}

// Rejected counts a call without the token or certificate. Its connection is closed
// unless a call that shows one follows in time.
func (r *rpc) Rejected(from net.Addr, err error) {
	if err == errUnauthenticated {
		r.server.api.CountUnauthorized()
		listen.ConnFrom(from).Demote()
	}
}

// shows reports whether a call shows the token or a certificate, where one of them is
// required.
func (r *rpc) shows(conn *listen.Conn, state *tls.ConnectionState, authorization []string) bool {
	c := &r.server.config
	if !r.private() || r.asksClients() && c.TLS.Verified(conn, state) {
		return true
	}
	for _, v := range authorization {
		if c.Auth.Token.Matches(listen.Bearer(v)) {
			return true
		}
	}
	return false
}

// private reports whether callers must authenticate.
func (r *rpc) private() bool { return r.server.config.Auth.Token != nil || r.asksClients() }

// asksClients reports whether client certificates authenticate.
func (r *rpc) asksClients() bool { return r.tls != nil && r.server.config.TLS.AcceptsClientCerts() }

var errNoSlot = grpcstatus.Error(codes.ResourceExhausted, "too many open connections; try again in a second")

var errUnauthenticated = grpcstatus.Error(codes.Unauthenticated,
	"authentication required: the bearer token is missing or wrong; send the metadata authorization: Bearer TOKEN, with the token of weir")

// Enter takes a place in the capacity of the server.
func (r *rpc) Enter() error {
	if r.server.capacity.Enter() != nil {
		return grpcstatus.Error(codes.ResourceExhausted, "too many requests in flight; try again in a second")
	}
	return nil
}

// Leave returns the place.
func (r *rpc) Leave() { r.server.capacity.Leave() }

func (r *rpc) open() (err error) {
	// TLS is that of gRPC, since the state of TLS authenticates the caller.
	c := r.server.bounds(r.address, r.server.config.Limits.Conns, r.private())
	if c.AdmitWithin > 0 {
		// Health checks may come every ten seconds over one connection. Its end must not
		// meet one of them.
		c.AdmitWithin += c.AdmitWithin / 20
	}
	r.listener, err = listen.Open(c)
	if err != nil {
		return fmt.Errorf("weir: cannot listen: %w", err)
	}
	return nil
}

func (r *rpc) addr() string { return boundAddress(r.listener, r.address) }

// serve answers requests until the listener ends.
func (r *rpc) serve() error {
	defer close(r.done)
	err := r.calls.Serve(r.listener)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drain accepts the waiting connections, then no more, and waits for the requests on
// them until ctx is done.
func (r *rpc) drain(ctx context.Context) error {
	r.listener.Drain()
	accepted(ctx, r.done)
	return r.calls.Drain(ctx)
}

// GRPCAddr returns the address of the gRPC listener, "" if there is none.
func (s *Server) GRPCAddr() string {
	if s.rpc == nil {
		return ""
	}
	return s.rpc.addr()
}
