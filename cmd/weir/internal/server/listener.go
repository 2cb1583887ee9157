package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/resp"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
)

// listener is one listener of the server, of any protocol. The main one serves everything over
// HTTP but the calls of operators; those belong to the admin listener if there is one,
// otherwise also to main.
type listener struct {
	httpapi.Endpoint // for HTTP; other protocols use Local, Clients and Private

	flag    string // that configures it, for messages
	address listen.Address
	tls     *tls.Config // nil without TLS
	conns   int         // slots; 0 = as many as each listener has
	grpc    bool        // gRPC speaks TLS itself, since the state of TLS authenticates the caller

	serve func(net.Listener) error    // answers until the socket ends
	drain func(context.Context) error // ends serve, after the requests in flight; end calls it

	socket *listen.Listener // nil until open
}

// The flags that configure listeners.
const (
	mainFlag  = "--listen"
	adminFlag = "--admin-listen"
	grpcFlag  = "--grpc-listen"
	respFlag  = "--resp-listen"
)

// listenerNames has the name of each listener in metrics and in the log, by its flag.
var listenerNames = map[string]string{
	mainFlag:  "main",
	adminFlag: "admin",
	grpcFlag:  "grpc",
	respFlag:  "resp",
}

// adminDefault is the address for operators if other machines can reach the main
// listener and no other address is configured.
const adminDefault = "127.0.0.1:7072"

// newListeners makes the listeners of the configuration, not open yet.
func (s *Server) newListeners() error {
	c := &s.config
	var errs [4]error
	s.main, errs[0] = s.newListener(mainFlag, c.Listen, "h2", "http/1.1")
	if c.AdminListen == "" && errs[0] == nil && !s.main.Local {
		c.AdminListen = adminDefault
	}
	s.admin, errs[1] = s.newListener(adminFlag, c.AdminListen, "h2", "http/1.1")
	s.grpc, errs[2] = s.newListener(grpcFlag, c.GRPCListen, "h2")
	s.redis, errs[3] = s.newListener(respFlag, c.RESPListen)
	if err := cmp.Or(errs[:]...); err != nil {
		return err
	}
	programs := len(s.ports) // the number of listeners of programs and proxies
	if s.admin != nil {
		programs--
	}
	s.connections = splitConnections(listen.Descriptors(), programs, c.Limits.Conns, s.admin != nil)
	s.main.Shared = s.admin == nil
	s.serveHTTP(s.main)
	if s.admin != nil {
		s.admin.Admin = true
		s.admin.conns = s.connections.admin
		s.serveHTTP(s.admin)
	}
	if s.grpc != nil {
		s.serveGRPC(s.grpc)
	}
	if s.redis != nil {
		s.serveRESP(s.redis)
	}
	return nil
}

// newListener returns the listener of a flag, for protocols of TLS; nil without an address. It
// has the TLS of the server, except on unix sockets and as an admin listener that only this
// machine reaches.
func (s *Server) newListener(flag, address string, protocols ...string) (*listener, error) {
	if address == "" {
		return nil, nil
	}
	a, err := listen.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("weir: cannot listen: %s: %w", flag, err)
	}
	l := &listener{flag: flag, address: a}
	l.API = s.api
	l.Local = a.Local()
	isLocalAdmin := flag == adminFlag && l.Local
	if t := s.config.TLS; t != nil && !a.IsUnix() && !isLocalAdmin {
		l.tls = t.Config(protocols...)
		l.Clients = t.AcceptsClientCerts()
	}
	s.ports = append(s.ports, l)
	return l, nil
}

// serveHTTP makes l a listener for HTTP.
func (s *Server) serveHTTP(l *listener) {
	// Browsers reach no unix socket, and over TLS they see that the certificate belongs to
	// another site. A listener for other machines has names that it cannot know, unless some are
	// configured.
	if !l.address.IsUnix() && l.tls == nil && (l.Local || !s.config.Hosts.Empty()) {
		l.Names = new(s.config.Hosts.With(l.address))
	}
	l.Private = s.api.IsPrivate(&l.Endpoint)
	c := s.config.Limits
	h := &http.Server{
		Handler:           &l.Endpoint,
		ReadHeaderTimeout: c.ReadHeader,
		ReadTimeout:       c.Read,
		WriteTimeout:      c.Write,
		IdleTimeout:       c.Idle,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          100,
			MaxReceiveBufferPerConnection: httpapi.MaxBody,
			MaxReceiveBufferPerStream:     httpapi.MaxBody,
		},
		ConnContext: httpapi.WithConn,
		ErrorLog:    log.New(newLog(s.log), "", 0),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered like an unknown path
	}
	l.serve = h.Serve
	l.drain = func(ctx context.Context) error {
		err := h.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			h.Close()
		}
		return err
	}
}

// firstCallTime is how long a connection without a complete call stays open while the server
// drains: gRPC would wait for its handshake and message, and net/http for the header of its
// request.
const firstCallTime = time.Second

// end drains the listener.
func (l *listener) end(ctx context.Context) error {
	strangers := time.AfterFunc(firstCallTime, l.socket.CloseStrangers)
	defer strangers.Stop()
	return l.drain(ctx)
}

// serveGRPC makes l the listener for Envoy's rate limit service.
func (s *Server) serveGRPC(l *listener) {
	access := &envoy.Access{
		Token:        s.config.Auth.Token,
		Capacity:     s.capacity,
		Unauthorized: &s.api.Unauthorized,
	}
	if l.Clients {
		access.TLS = s.config.TLS
	}
	s.rpc = envoy.NewListener(s.envoy, l.tls, access)
	l.grpc = true
	l.Private = access.Private()
	l.serve = s.rpc.Serve
	l.drain = s.rpc.Drain
}

// serveRESP makes l the listener for Redis clients.
func (s *Server) serveRESP(l *listener) {
	c := &s.config
	config := resp.Config{
		Policies: s.policies.Version,
		Inline:   s.inline,
		Capacity: s.capacity,
		Errors:   s.errors,
		Waits:    c.Memory == nil,
		Token:    c.Auth.Token,
		Admin:    c.Auth.Admin,
		NoReset:  s.admin != nil,
		Log:      s.log,
	}
	if l.Clients {
		config.TLS = c.TLS
	}
	s.resp = resp.New(config)
	l.Private = s.resp.Private()
	l.serve = s.resp.Serve
	l.drain = s.resp.Shutdown
}

// maxStrangers is the number of gRPC connections without a complete authorized call.
// docs/service.md has the memory that they take.
const maxStrangers = 256

// open opens the socket with the bounds of its connections.
//
// Where callers need not authenticate, all connections of an address count. On loopback
// these would be the connections of one proxy, so there is no bound unless
// Limits.PerAddress is set.
func (l *listener) open(s *Server) (err error) {
	c := listen.Config{
		Address:    l.address,
		Mode:       s.config.SocketMode,
		Conns:      cmp.Or(l.conns, s.connections.each),
		Spare:      s.connections.spare,
		PerAddress: s.config.Limits.PerAddress,
	}
	if c.PerAddress == 0 && (l.Private || !l.Local) {
		c.PerAddress = max(c.Conns/4, spareConns)
	}
	if l.Private {
		c.AdmitWithin = s.config.Limits.Prove
	}
	if l.grpc {
		// Health checks may come every ten seconds over one connection. Its end must not
		// meet one of them.
		c.AdmitWithin += c.AdmitWithin / 20
		c.Strangers = maxStrangers
		c.Allowance = envoy.Allowance
	} else {
		c.TLS = l.tls
	}
	c.Closed = func(client net.Addr, reason string) {
		s.closings.Line(slog.LevelWarn, "connection closed", "listener", l.flag,
			"client", client.String(), "reason", reason)
	}
	if l.socket, err = listen.Open(c); err != nil {
		return fmt.Errorf("weir: cannot listen: %w", err)
	}
	return nil
}

// addr returns the address of an open socket, otherwise the configured one.
func (l *listener) addr() string {
	if l.socket == nil || l.address.IsUnix() {
		return l.address.String()
	}
	return l.socket.Addr().String()
}

// url returns the URL for clients of HTTP, and the address for those of other protocols.
func (l *listener) url() string {
	switch {
	case l.address.IsUnix(), l.flag == grpcFlag, l.flag == respFlag:
		return l.addr()
	case l.tls != nil:
		return "https://" + l.addr()
	}
	return "http://" + l.addr()
}

// Addr returns the address of the main listener, such as 127.0.0.1:7070; before Listen,
// the configured one.
func (s *Server) Addr() string { return s.main.addr() }

// GRPCAddr returns the address of the gRPC listener, which must be configured.
func (s *Server) GRPCAddr() string { return s.grpc.addr() }

// RESPAddr returns the address for Redis clients, which must be configured.
func (s *Server) RESPAddr() string { return s.redis.addr() }

// checkAccess returns the errors of listeners that other machines can reach without a secret
// or certificate, and of those on which no call could be authorised: they have no gates, and
// callers could show only the gate secret.
func (s *Server) checkAccess() error {
	var errs []error
	c := &s.config
	for _, p := range s.ports {
		// Either secret closes the calls that it does not open.
		secret := cmp.Or(c.Auth.Token, c.Auth.Gate)
		flag := "--token-file"
		if p.flag == adminFlag {
			secret = c.Auth.Admin
			flag = "--admin-token-file"
		}
		if !p.address.Local() && secret == nil && !p.Clients && !c.Insecure {
			errs = append(errs, fmt.Errorf("%s %s can be reached from other machines "+
				"without authentication; set %s FILE, "+
				"or --tls-client-ca FILE with --tls-cert and --tls-key, "+
				"or listen on 127.0.0.1 or unix:/path", p.flag, p.address, flag))
		}
		if (p == s.redis || p == s.grpc) && s.api.GatesOnly && !p.Clients {
			errs = append(errs, fmt.Errorf("%s %s has no gates, "+
				"and --gate-secret-file without a token opens gates alone; "+
				"set --token-file FILE, or --insecure-listen", p.flag, p.address))
		}
	}
	return errors.Join(errs...)
}

// Warnings returns sentences for an operator about listeners that other machines reach,
// and about missing file descriptors.
func (s *Server) Warnings() (all []string) {
	if warning := s.connections.warning(); warning != "" {
		all = append(all, warning)
	}
	for _, p := range s.ports {
		risk := "charge and reset every key"
		if p.grpc {
			risk = "charge every key"
		}
		where := p.flag + " " + p.address.String()
		switch {
		case p.address.Local():
		case s.config.Insecure:
			all = append(all, where+" can be reached from other machines; "+
				"--insecure-listen lets anybody there "+risk)
		case p.tls == nil:
			all = append(all, where+" speaks without TLS: "+
				"tokens cross the network in the clear; set --tls-cert and --tls-key")
		}
	}
	return all
}

// connections are the slots of each kind of listener. Together they leave enough file
// descriptors for the store and for files. At the limit of descriptors the system accepts
// no connection on any listener, so a flood on one would silence /livez on another.
type connections struct {
	each  int // slots of a listener for programs and proxies
	admin int
	spare int // further ones of every listener, for probes and for the answer 503

	descriptors int // the limit of the process, if it reduces each; otherwise 0
}

// splitConnections splits the file descriptors, 0 for no known limit, among the listeners,
// each with most slots if possible. admin is whether operators have one more listener.
func splitConnections(descriptors, listeners, most int, admin bool) connections {
	p := connections{each: most, spare: spareConns}
	all := listeners
	if admin {
		p.admin = adminConns
		all++
	}
	if descriptors == 0 {
		return p
	}
	p.admin = min(p.admin, max(descriptors/8, 1))
	own := min(3*descriptors/8, 64)
	left := descriptors - p.admin - own
	p.spare = min(p.spare, max(left/(10*all), 1))
	if each := max((left-all*p.spare)/listeners, 1); each < p.each {
		p.each, p.descriptors = each, descriptors
	}
	return p
}

// adminConns is the number of slots of the admin listener, spareConns that of spare slots.
const (
	adminConns = 100
	spareConns = 16
)

// warning returns a sentence about missing descriptors, or "".
func (p *connections) warning() string {
	if p.descriptors == 0 || p.each >= 1000 {
		return ""
	}
	return fmt.Sprintf("%d file descriptors allow %d connections to each listener, "+
		"further ones are refused; raise ulimit -n, or LimitNOFILE= of systemd",
		p.descriptors, p.each)
}
