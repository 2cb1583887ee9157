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

// Authorize rejects calls that show neither the token nor a certificate, where one of them
// is required, and calls on a connection that finds no slot.
func (r *rpc) Authorize(from net.Addr, state *tls.ConnectionState, authorization []string) error {
	conn := listen.ConnFrom(from)
	if !r.shows(conn, state, authorization) {
		return errStranger
	}
	if !conn.Admit() {
		r.server.room.shed.Add(1)
		return errCrowd
	}
	return nil
}

// Rejected counts a call without the token or certificate. Its connection is closed
// unless a call that shows one follows in time.
func (r *rpc) Rejected(from net.Addr, err error) {
	if err == errStranger {
		r.server.strangers.Add(1)
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
		if c.Guards.Token.Matches(listen.Bearer(v)) {
			return true
		}
	}
	return false
}

// private reports whether callers must show something.
func (r *rpc) private() bool { return r.server.config.Guards.Token != nil || r.asksClients() }

// asksClients reports whether clients may show certificates in place of a token.
func (r *rpc) asksClients() bool { return r.tls != nil && r.server.config.TLS.AcceptsClientCerts() }

var errCrowd = grpcstatus.Error(codes.ResourceExhausted, "as many connections are open as may be; come back later")

var errStranger = grpcstatus.Error(codes.Unauthenticated,
	"authentication required: the bearer token is missing or wrong; send the metadata authorization: Bearer TOKEN, with the token of weir")

// Enter lets a request in if there is room.
func (r *rpc) Enter() error {
	if !r.server.room.enter() {
		return grpcstatus.Error(codes.ResourceExhausted, "as many requests wait for the store as may; come back later")
	}
	return nil
}

// Leave follows Enter.
func (r *rpc) Leave() { r.server.room.leave() }

// exposed returns why the listener may not listen where it should, nil if it may.
func (r *rpc) exposed() error {
	c := &r.server.config
	if r.address.Local() || c.Guards.Token != nil || c.Insecure || c.TLS != nil && c.TLS.AcceptsClientCerts() {
		return nil
	}
	return &listen.ExposedError{Flag: "--grpc-listen", Address: r.address,
		Next: "--token-file FILE, or --tls-client-ca FILE with --tls-cert and --tls-key"}
}

// warning returns a sentence about callers from other machines, or "".
func (r *rpc) warning() string {
	where := "--grpc-listen " + r.address.String() + " "
	switch {
	case r.address.Local():
	case r.server.config.Insecure:
		return where + "can be reached from other machines; with --insecure-listen they can charge every key"
	case r.tls == nil:
		return where + "speaks without TLS: tokens cross the network in the clear; set --tls-cert and --tls-key"
	}
	return ""
}

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

// addr is the address listened on, before open the one that was asked for.
func (r *rpc) addr() string {
	if r.listener == nil || r.address.IsUnix() {
		return r.address.String()
	}
	return r.listener.Addr().String()
}

// serve answers requests until the listener ends.
func (r *rpc) serve() error {
	defer close(r.done)
	err := r.calls.Serve(r.listener)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drain accepts the connections that wait, then no more, and waits for the requests
// on them until ctx is done.
func (r *rpc) drain(ctx context.Context) error {
	r.listener.Drain()
	taken(ctx, r.done)
	return r.calls.Drain(ctx)
}

// GRPCAddr is the address of the gRPC listener, "" if there is none.
func (s *Server) GRPCAddr() string {
	if s.rpc == nil {
		return ""
	}
	return s.rpc.addr()
}
