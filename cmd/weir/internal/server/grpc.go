package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// rpc is the gRPC listener.
type rpc struct {
	port
	server *Server
	calls  *envoy.Listener
}

// newRPC makes the gRPC listener, not open yet; nil if none is configured.
func (s *Server) newRPC() (*rpc, error) {
	if s.config.GRPCListen == "" {
		return nil, nil
	}
	p, err := newPort("--grpc-listen", s.config.GRPCListen)
	if err != nil {
		return nil, err
	}
	p.grpc, p.conns = true, s.config.Limits.Conns
	if s.config.TLS != nil && !p.address.IsUnix() {
		p.tls = s.config.TLS.Config("h2")
	}
	r := &rpc{port: p, server: s}
	r.private = s.config.Auth.Token != nil || r.asksClients()
	r.calls = envoy.NewListener(s.envoy, r.tls, r)
	r.serve = func(l net.Listener) error {
		err := r.calls.Serve(l)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		return err
	}
	r.drain = r.end
	s.ports = append(s.ports, &r.port)
	return r, nil
}

// firstCallTime is how long a connection without a complete call has at the end.
const firstCallTime = time.Second

// end answers the calls in flight. Connections without a complete call so far are closed
// after firstCallTime: gRPC would wait for their handshakes and messages.
func (r *rpc) end(ctx context.Context) error {
	strangers := time.AfterFunc(firstCallTime, func() { r.socket.CloseStrangers() })
	defer strangers.Stop()
	return r.calls.Drain(ctx)
}

// Authorize reports whether a call shows the token or a certificate, where one of them is
// required.
func (r *rpc) Authorize(from net.Addr, state *tls.ConnectionState, authorization []string) bool {
	c := &r.server.config
	if !r.private || r.asksClients() && c.TLS.Verified(listen.ConnFrom(from), state) {
		return true
	}
	for _, v := range authorization {
		if c.Auth.Token.Matches(listen.Bearer(v)) {
			return true
		}
	}
	return false
}

// Rejected counts a call without the token or certificate. Its connection is closed
// unless a call that shows one follows in time.
func (r *rpc) Rejected(from net.Addr) error {
	r.server.api.Unauthorized.Add(1)
	listen.ConnFrom(from).Demote()
	return errUnauthenticated
}

// asksClients reports whether client certificates authenticate.
func (r *rpc) asksClients() bool { return r.tls != nil && r.server.config.TLS.AcceptsClientCerts() }

var errNoSlot = grpcstatus.Error(codes.ResourceExhausted, "too many open connections; try again in a second")

var errUnauthenticated = grpcstatus.Error(codes.Unauthenticated,
	"authentication required: the bearer token is missing or wrong; send the metadata authorization: Bearer TOKEN, with the token of weir")

// Enter admits the connection of a call, and takes a place in the capacity of the server.
func (r *rpc) Enter(from net.Addr) error {
	if !listen.ConnFrom(from).Admit() {
		r.server.capacity.Reject()
		return errNoSlot
	}
	if r.server.capacity.Enter() != nil {
		return grpcstatus.Error(codes.ResourceExhausted, "too many requests in flight; try again in a second")
	}
	return nil
}

// Leave returns the place.
func (r *rpc) Leave() { r.server.capacity.Leave() }

// GRPCAddr returns the address of the gRPC listener, "" if there is none.
func (s *Server) GRPCAddr() string {
	if s.rpc == nil {
		return ""
	}
	return s.rpc.addr()
}
