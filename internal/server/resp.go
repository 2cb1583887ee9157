package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/front/resp"
	"github.com/weirlimit/weir/internal/gcra"
	"github.com/weirlimit/weir/internal/listen"
)

// respFace is the listener for Redis clients.
type respFace struct {
	address  listen.Address
	server   *resp.Server
	listener *listen.Listener // nil until open
	done     chan struct{}    // closed when the server has left the listener
}

// newRESP makes the listener of Config.RESPListen, not open yet; nil if there is none.
func (s *Server) newRESP() (*respFace, error) {
	c := &s.config
	if c.RESPListen == "" {
		return nil, nil
	}
	address, err := listen.Parse(c.RESPListen)
	if err != nil {
		return nil, fmt.Errorf("weir: cannot listen: --resp-listen: %w", err)
	}
	if c.Throttler == nil {
		c.Throttler = gcra.NewTable(gcra.DefaultBytes)
	}
	_, memory := c.Engine.(*weir.Memory)
	return &respFace{address: address, done: make(chan struct{}), server: resp.New(resp.Config{
		Policies: respPolicies{s}, Reservations: respReservations{s}, Throttler: respThrottler{s}, Waits: !memory,
		Guard: s.respGuard(), Version: c.Version, Log: s.log,
	})}, nil
}

// respGuard gives the tokens and certificates of HTTP the same meaning here.
// WEIR.RESET is for operators, who are not answered here when they have a listener
// of their own and no token.
func (s *Server) respGuard() (g resp.Guard) {
	c := &s.config
	shared := resp.MayDecide
	if c.Guards.Admin == nil && s.admin == nil {
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
	if c.Guards.Token == nil && g.Certified == nil {
		g.Anybody = shared
	}
	if c.Guards.Token != nil || c.Guards.Admin != nil {
		g.Password = func(password string) resp.Grant {
			token, admin := c.Guards.Token.Credential(password), c.Guards.Admin.Credential(password)
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

// exposedRESP returns why the server may not listen there for Redis clients.
func (s *Server) exposedRESP() error {
	f, c := s.resp, &s.config
	if f == nil || f.address.Local() || c.Guards.Token != nil || c.TLS != nil && c.TLS.AcceptsClientCerts() || c.Insecure {
		return nil
	}
	return &listen.ExposedError{Flag: "--resp-listen", Address: f.address,
		Next: "--token-file FILE, or --tls-client-ca FILE with --tls-cert and --tls-key"}
}

func (f *respFace) open(s *Server) (err error) {
	c := s.bounds(f.address, s.config.Limits.Conns, s.respGuard().Anybody == 0)
	if s.config.TLS != nil && !f.address.IsUnix() {
		c.TLS = s.config.TLS.Config()
	}
	if f.listener, err = listen.Open(c); err != nil {
		return fmt.Errorf("weir: cannot listen: %w", err)
	}
	return nil
}

// addr is the address listened on, before open the one that was asked for.
func (f *respFace) addr() string {
	if f.listener == nil || f.address.IsUnix() {
		return f.address.String()
	}
	return f.listener.Addr().String()
}

// drain accepts the connections that wait, then no more, and answers what was read.
func (f *respFace) drain(ctx context.Context) error {
	f.listener.Drain()
	taken(ctx, f.done)
	return f.server.Shutdown(ctx)
}

// RESPAddr is the address where Redis clients are answered, "" if there is none.
func (s *Server) RESPAddr() string {
	if s.resp == nil {
		return ""
	}
	return s.resp.addr()
}

// respPolicies are the policies in force, as Redis clients ask them.
type respPolicies struct{ s *Server }

// Policy returns the policy of that name.
func (p respPolicies) Policy(name string) (resp.Policy, error) {
	e, err := p.s.find(name, http.StatusBadRequest)
	if err != nil {
		return nil, err
	}
	return &e.redis, nil
}

// respThrottler decides for CL.THROTTLE if there is room for another request.
type respThrottler struct{ s *Server }

// Throttle asks Config.Throttler.
func (t respThrottler) Throttle(ctx context.Context, key string, l gcra.Limit, n int64) (gcra.Answer, error) {
	if !t.s.room.enter() {
		return gcra.Answer{}, respError(errBusy)
	}
	defer t.s.room.leave()
	return t.s.config.Throttler.Throttle(ctx, key, l, n)
}

// told logs an error that is not the client's fault, and returns what it is told.
func (s *Server) told(err error) error {
	if err != nil && !isBadInput(err) {
		s.complain(err)
	}
	return err
}

// respError is what a Redis client is told of an error of the server.
func respError(err error) error {
	if errors.Is(err, errBusy) {
		return resp.Unavailable("no decision: as many requests are under way as may be; nothing was charged, try again in a second, or start more of weir")
	}
	return err
}
