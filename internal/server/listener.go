package server

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/serving"
)

// listener is a listener for HTTP. The main one serves everything but the calls of
// operators; those belong to the admin listener if there is one, otherwise also to main.
type listener struct {
	httpapi.Endpoint
	flag    string // that configures it, for messages
	address listen.Address
	tls     *tls.Config // nil without TLS
	conns   int         // slots

	http   *http.Server
	socket *listen.Listener // nil until open
	done   chan struct{}    // closed when http has left socket
}

// adminDefault is the address for operators if other machines can reach the main
// listener and no other address is configured.
const adminDefault = "127.0.0.1:7072"

// newListeners makes the listeners of the configuration, not open yet.
func (s *Server) newListeners() error {
	var err error
	if s.main, err = s.newListener(&listener{flag: "--listen"}, s.config.Listen); err != nil {
		return err
	}
	admin := s.config.AdminListen
	if admin == "" && !s.main.Local {
		admin = adminDefault
	}
	s.splitDescriptors(admin != "")
	s.main.conns = s.connections.each
	if s.main.Shared = admin == ""; s.main.Shared {
		return nil
	}
	l := &listener{flag: "--admin-listen", conns: s.connections.admin}
	l.Admin = true
	s.admin, err = s.newListener(l, admin)
	return err
}

func (s *Server) newListener(l *listener, address string) (_ *listener, err error) {
	if l.address, err = listen.Parse(address); err != nil {
		return nil, fmt.Errorf("weir: cannot listen: %s: %w", l.flag, err)
	}
	l.Local, l.done = l.address.Local(), make(chan struct{})
	l.tls = s.tlsOf(l)
	l.Clients = l.tls != nil && s.config.TLS.AcceptsClientCerts()
	l.Names = s.namesOf(l)
	c := s.config.Limits
	l.http = &http.Server{
		Handler:           s.api.Handler(&l.Endpoint),
		ReadHeaderTimeout: c.ReadHeader,
		ReadTimeout:       c.Read,
		WriteTimeout:      c.Write,
		IdleTimeout:       c.Idle,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 100, MaxReceiveBufferPerConnection: httpapi.MaxBody, MaxReceiveBufferPerStream: httpapi.MaxBody},
		ConnState:         l.mark,
		ConnContext:       httpapi.WithConn,
		ErrorLog:          log.New(&serving.Log{To: s.log, Max: logLines, Period: logPeriod}, "", 0),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered like an unknown path
	}
	return l, nil
}

// mark marks a connection as busy while it waits for an answer, and when it is new:
// then a request follows.
func (l *listener) mark(c net.Conn, state http.ConnState) {
	l.socket.SetBusy(c, state == http.StateNew || state == http.StateActive)
}

// listeners returns the listeners for HTTP, the main one first.
func (s *Server) listeners() []*listener {
	if s.admin == nil {
		return []*listener{s.main}
	}
	return []*listener{s.main, s.admin}
}

// tlsOf returns the TLS configuration of a listener: that of the server, except on unix
// sockets and on an admin listener that only this machine reaches.
func (s *Server) tlsOf(l *listener) *tls.Config {
	if s.config.TLS == nil || l.address.IsUnix() || l.Admin && l.Local {
		return nil
	}
	return s.config.TLS.Config("h2", "http/1.1")
}

// namesOf returns the names that Host may hold on a listener; nil = any. Browsers reach no
// unix socket, and over TLS they see that the certificate belongs to another site. A
// listener for other machines has names that it cannot know, unless some are configured.
func (s *Server) namesOf(l *listener) *listen.Names {
	if l.address.IsUnix() || l.tls != nil || !l.Local && s.config.Hosts.Empty() {
		return nil
	}
	names := s.config.Hosts.With(l.address)
	return &names
}

func (l *listener) open(s *Server) (err error) {
	l.Private = s.api.IsPrivate(&l.Endpoint)
	c := s.bounds(l.address, l.conns, l.Private)
	c.TLS = l.tls
	l.socket, err = listen.Open(c)
	if err != nil {
		return fmt.Errorf("weir: cannot listen: %w", err)
	}
	return nil
}

// bounds returns the bounds of the connections of a listener with so many slots. private
// is whether callers must authenticate there.
//
// Where they need not, all connections of an address count. On loopback these would be
// the connections of one proxy, so there is no bound unless Limits.PerAddress is set.
func (s *Server) bounds(address listen.Address, conns int, private bool) listen.Config {
	c := listen.Config{Address: address, Mode: s.config.SocketMode, Conns: conns, Spare: s.connections.spare, PerAddress: s.config.Limits.PerAddress}
	if c.PerAddress == 0 && (private || !address.Local()) {
		c.PerAddress = max(conns/4, spareConns)
	}
	if private {
		c.AdmitWithin = s.config.Limits.Prove
	}
	return c
}

// boundAddress returns the address of an open socket, otherwise the configured one.
func boundAddress(socket *listen.Listener, configured listen.Address) string {
	if socket == nil || configured.IsUnix() {
		return configured.String()
	}
	return socket.Addr().String()
}

func (l *listener) addr() string { return boundAddress(l.socket, l.address) }

// url returns the URL for clients.
func (l *listener) url() string {
	switch {
	case l.address.IsUnix():
		return l.addr()
	case l.tls != nil:
		return "https://" + l.addr()
	}
	return "http://" + l.addr()
}

// Addr returns the address of the main listener, such as 127.0.0.1:7070; before Listen,
// the configured one.
func (s *Server) Addr() string { return s.main.addr() }

// AdminAddr returns the address for operators; Addr if they have no listener of their own.
func (s *Server) AdminAddr() string {
	if s.admin == nil {
		return s.main.addr()
	}
	return s.admin.addr()
}
