package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// port is one listener of the server, of any protocol.
type port struct {
	flag    string // that configures it, for messages
	address listen.Address
	tls     *tls.Config // nil without TLS
	conns   int         // slots
	private bool        // callers must authenticate
	grpc    bool        // gRPC speaks TLS itself, since the state of TLS authenticates the caller

	serve func(net.Listener) error    // answers until the socket ends
	drain func(context.Context) error // ends serve, after the requests in flight

	socket *listen.Listener // nil until open
}

// maxStrangers is the number of gRPC connections without a complete authorized call.
// docs/service.md has the memory that they take.
const maxStrangers = 256

// newPort returns the port of a flag, not open yet.
func newPort(flag, address string) (port, error) {
	a, err := listen.Parse(address)
	if err != nil {
		return port{}, fmt.Errorf("weir: cannot listen: %s: %w", flag, err)
	}
	return port{flag: flag, address: a}, nil
}

// open opens the socket with the bounds of its connections.
//
// Where callers need not authenticate, all connections of an address count. On loopback
// these would be the connections of one proxy, so there is no bound unless
// Limits.PerAddress is set.
func (p *port) open(s *Server) (err error) {
	c := listen.Config{Address: p.address, Mode: s.config.SocketMode, Conns: p.conns, Spare: s.connections.spare, PerAddress: s.config.Limits.PerAddress}
	if c.PerAddress == 0 && (p.private || !p.address.Local()) {
		c.PerAddress = max(p.conns/4, spareConns)
	}
	if p.private {
		c.AdmitWithin = s.config.Limits.Prove
	}
	if p.grpc {
		// Health checks may come every ten seconds over one connection. Its end must not
		// meet one of them.
		c.AdmitWithin += c.AdmitWithin / 20
		c.Strangers, c.Allowance = maxStrangers, envoy.Allowance
	} else {
		c.TLS = p.tls
	}
	c.Closed = func(client net.Addr, reason string) {
		s.closings.Line(slog.LevelWarn, "connection closed", "listener", p.flag, "client", client.String(), "reason", reason)
	}
	if p.socket, err = listen.Open(c); err != nil {
		return fmt.Errorf("weir: cannot listen: %w", err)
	}
	return nil
}

// addr returns the address of an open socket, otherwise the configured one.
func (p *port) addr() string {
	if p.socket == nil || p.address.IsUnix() {
		return p.address.String()
	}
	return p.socket.Addr().String()
}
