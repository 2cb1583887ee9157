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
	"slices"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/resp"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
)

// listener is one listener of the server, of any protocol. The main listener serves all HTTP
// calls except those for operators. The admin listener serves those, if there is one; otherwise
// main does.
type listener struct {
	httpapi.Endpoint // for HTTP; other protocols use Local, Clients and Private

	flag    string // the flag with its address, for messages
	address listen.Address
	tls     *tls.Config // nil without TLS
	conns   int         // most connections; 0 = connections.each
	grpc    bool        // package grpc does TLS, because its state authenticates the caller

	inherited net.Listener // the socket in Config.Sockets with the address; nil = open makes one

	serve func(net.Listener) error    // answers requests until the socket is closed
	drain func(context.Context) error // ends serve after the requests in flight

	socket *listen.Listener // nil until open
}

// These are the flags with the addresses of listeners.
const (
	mainFlag  = "--listen"
	adminFlag = "--admin-listen"
	grpcFlag  = "--grpc-listen"
	respFlag  = "--resp-listen"
)

// listenerNames maps the flag of each listener to its name in metrics and in the log.
var listenerNames = map[string]string{
	mainFlag:  "main",
	adminFlag: "admin",
	grpcFlag:  "grpc",
	respFlag:  "resp",
}

// adminDefault is the address for operators if none is configured and other machines can reach
// the main listener.
const adminDefault = "127.0.0.1:7072"

// newListeners makes the listeners of the configuration. It does not open them.
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
	if err := s.takeSockets(); err != nil {
		return err
	}
	programs := len(s.ports) // number of listeners for programs and proxies
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

// takeSockets gives each socket of Config.Sockets to the listener with its address. It rejects
// a socket without a listener, because its clients would connect and wait forever.
func (s *Server) takeSockets() error {
	for _, socket := range s.config.Sockets {
		bound := socket.Addr()
		i := slices.IndexFunc(s.ports, func(l *listener) bool {
			return l.inherited == nil && l.address.Is(bound)
		})
		if i < 0 {
			name := bound.String()
			if bound.Network() == "unix" {
				name = "unix:" + name
			}
			return fmt.Errorf("weir: cannot listen: the service manager passes a socket on %s, "+
				"and no listener has that address; set --listen or another one of them to %[1]s, "+
				"or change ListenStream= in the unit of the socket", name)
		}
		s.ports[i].inherited = socket
	}
	return nil
}

// newListener returns the listener of a flag, or nil without an address. protocols are those
// that TLS offers. The listener has the TLS of the server, except on a unix socket and on an
// admin listener for this machine alone.
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
	// The Host of requests is checked against attacks through a browser. Browsers cannot open unix
	// sockets, and over TLS they notice that the certificate belongs to another site. The names of
	// a listener for other machines are unknown, unless some are configured.
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
		ConnState: func(c net.Conn, state http.ConnState) {
			listen.ConnOf(c).SetWaiting(state == http.StateIdle)
		},
		ErrorLog: log.New(newLog(s.log), "", 0),

		DisableGeneralOptionsHandler: true, // OPTIONS * gets the answer for an unknown path
	}
	l.serve = h.Serve
	l.drain = func(ctx context.Context) error {
		l.answerAll(ctx)
		err := h.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			h.Close()
		}
		return err
	}
}

// firstCallTime is how long a connection without a complete call stays open while the server
// drains. Otherwise package grpc would wait for its handshake and message, and net/http for the
// header of its request.
const firstCallTime = time.Second

// answerAll accepts no further connection, and waits until the open ones have their answers.
// After Shutdown, net/http closes a connection whose request it reads, without an answer. The
// client then does not know whether the request was charged, and no proxy repeats the first
// request of a connection.
func (l *listener) answerAll(ctx context.Context) {
	l.socket.Close()
	ctx, cancel := context.WithTimeout(ctx, firstCallTime)
	defer cancel()
	l.socket.AwaitAnswers(ctx)
}

// end drains the listener. It closes unauthenticated connections after firstCallTime.
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

// maxStrangers is the largest number of gRPC connections without a complete authorized call.
// docs/service.md states the memory that they take.
const maxStrangers = 256

// open opens the socket with the bounds of its connections.
//
// If callers need not authenticate, the bound for one address counts all of its connections. On
// loopback these may be the connections of one proxy. So there is no such bound, unless
// Limits.PerAddress is set.
func (l *listener) open(s *Server) (err error) {
	c := listen.Config{
		Address:    l.address,
		Socket:     l.inherited,
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
		// Health checks may arrive every ten seconds on one connection. It must not be closed
		// while one of them is answered.
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

// addr returns the address of the open socket, or the configured one before that.
func (l *listener) addr() string {
	if l.socket == nil || l.address.IsUnix() {
		return l.address.String()
	}
	return l.socket.Addr().String()
}

// url returns the URL of a listener for HTTP, and the address of any other.
func (l *listener) url() string {
	switch {
	case l.address.IsUnix(), l.flag == grpcFlag, l.flag == respFlag:
		return l.addr()
	case l.tls != nil:
		return "https://" + l.addr()
	}
	return "http://" + l.addr()
}

// Addr returns the address of the main listener, such as 127.0.0.1:7070. Before Listen it is
// the configured one.
func (s *Server) Addr() string { return s.main.addr() }

// GRPCAddr returns the address of the gRPC listener, which must be configured.
func (s *Server) GRPCAddr() string { return s.grpc.addr() }

// RESPAddr returns the address for Redis clients, which must be configured.
func (s *Server) RESPAddr() string { return s.redis.addr() }

// checkAccess rejects listeners that other machines can reach without a secret or a
// certificate. It also rejects listeners on which no call can be authorized: without gates, if
// the only secret is that of gates.
func (s *Server) checkAccess() error {
	var errs []error
	c := &s.config
	for _, p := range s.ports {
		// Calls that neither secret authorizes are rejected, so one secret suffices.
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

// Warnings returns sentences for an operator about listeners that other machines can reach, and
// about missing file descriptors.
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

// connections are the numbers of connections for each kind of listener. They leave enough file
// descriptors for the store and for files. At the limit of descriptors the kernel accepts no
// connection on any listener, so a flood on one would silence /livez on another.
type connections struct {
	each  int // of a listener for programs and proxies
	admin int // of the admin listener
	spare int // further ones of every listener, for probes and answers 503

	descriptors int // limit of the process if it reduces each, otherwise 0
}

// splitConnections divides the file descriptors among the listeners. Each gets most
// connections, if possible. descriptors is 0 if the limit is unknown. admin reports whether
// there is an admin listener besides listeners.
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

// adminConns is the number of connections of the admin listener, spareConns that of spare ones.
const (
	adminConns = 100
	spareConns = 16
)

// warning returns a sentence about missing file descriptors, or "".
func (p *connections) warning() string {
	if p.descriptors == 0 || p.each >= 1000 {
		return ""
	}
	return fmt.Sprintf("%d file descriptors allow %d connections to each listener, "+
		"further ones are refused; raise ulimit -n, or LimitNOFILE= of systemd",
		p.descriptors, p.each)
}
