package server

import (
	"crypto/tls"

	"github.com/weirlimit/weir/cmd/weir/internal/front/resp"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// respListener is the listener for Redis clients.
type respListener struct {
	port
	server *resp.Server
}

// newRESP makes the listener of Config.RESPListen, not open yet; nil if there is none.
func (s *Server) newRESP() (*respListener, error) {
	c := &s.config
	if c.RESPListen == "" {
		return nil, nil
	}
	p, err := newPort("--resp-listen", c.RESPListen)
	if err != nil {
		return nil, err
	}
	guard := s.respGuard()
	l := &respListener{port: p, server: resp.New(resp.Config{
		Policies: s.set, Reservations: s.reservations, Capacity: s.capacity, Errors: s.errors, Waits: c.Memory == nil,
		Guard: guard, Version: c.Version, Log: s.log,
	})}
	l.conns, l.private = c.Limits.Conns, guard.Anybody == 0
	if c.TLS != nil && !p.address.IsUnix() {
		l.tls = c.TLS.Config()
	}
	l.serve, l.drain = l.server.Serve, l.server.Shutdown
	s.ports = append(s.ports, &l.port)
	return l, nil
}

// respGuard grants the tokens and certificates of HTTP the same rights here. WEIR.RESET
// is for operators: if they have a listener of their own and no token, no client has that
// right here.
func (s *Server) respGuard() (g resp.Guard) {
	c := &s.config
	shared := resp.MayDecide
	if c.Auth.Admin == nil && s.admin == nil {
		shared |= resp.MayReset
	}
	if c.TLS != nil && c.TLS.AcceptsClientCerts() {
		g.Certified = func(nc *tls.Conn) resp.Grant {
			conn, state := listen.ConnOf(nc), nc.ConnectionState()
			return func() (may resp.Rights) {
				if c.TLS.Verified(conn, &state) {
					may = shared
				}
				return may
			}
		}
	}
	if c.Auth.Token == nil && g.Certified == nil {
		g.Anybody = shared
	}
	if c.Auth.Token != nil || c.Auth.Admin != nil {
		g.Password = func(password string) resp.Grant {
			token, admin := c.Auth.Token.Credential(password), c.Auth.Admin.Credential(password)
			return func() (may resp.Rights) {
				if token.Valid() {
					may = shared
				}
				if admin.Valid() {
					may |= resp.MayReset
				}
				return may
			}
		}
	}
	return g
}

// RESPAddr returns the address for Redis clients, "" if there is none.
func (s *Server) RESPAddr() string {
	if s.resp == nil {
		return ""
	}
	return s.resp.addr()
}
