package server

import "github.com/weirlimit/weir/cmd/weir/internal/front/resp"

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
	config := resp.Config{
		Policies: s.set, Reservations: s.reservations, Capacity: s.capacity, Errors: s.errors, Waits: c.Memory == nil,
		Token: c.Auth.Token, Admin: c.Auth.Admin, NoReset: s.admin != nil, Version: c.Version, Log: s.log,
	}
	if c.TLS != nil && c.TLS.AcceptsClientCerts() {
		config.TLS = c.TLS
	}
	l := &respListener{port: p, server: resp.New(config)}
	l.conns, l.private = c.Limits.Conns, l.server.Private()
	if c.TLS != nil && !p.address.IsUnix() {
		l.tls = c.TLS.Config()
	}
	l.serve, l.drain = l.server.Serve, l.server.Shutdown
	s.ports = append(s.ports, &l.port)
	return l, nil
}

// RESPAddr returns the address for Redis clients, "" if there is none.
func (s *Server) RESPAddr() string {
	if s.resp == nil {
		return ""
	}
	return s.resp.addr()
}
