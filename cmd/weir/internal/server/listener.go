package server

import (
	"crypto/tls"
	"log"
	"net/http"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
)

// listener is a listener for HTTP. The main one serves everything but the calls of
// operators; those belong to the admin listener if there is one, otherwise also to main.
type listener struct {
	httpapi.Endpoint
	port
	http *http.Server
}

// adminFlag configures the listener for operators.
const adminFlag = "--admin-listen"

// adminDefault is the address for operators if other machines can reach the main
// listener and no other address is configured.
const adminDefault = "127.0.0.1:7072"

// newListeners makes the listeners of the configuration, not open yet.
func (s *Server) newListeners() error {
	var err error
	if s.main, err = s.newListener("--listen", s.config.Listen); err != nil {
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
	if s.admin, err = s.newListener(adminFlag, admin); err != nil {
		return err
	}
	s.admin.conns = s.connections.admin
	return nil
}

func (s *Server) newListener(flag, address string) (*listener, error) {
	p, err := newPort(flag, address)
	if err != nil {
		return nil, err
	}
	l := &listener{port: p}
	l.Admin, l.Local = flag == adminFlag, p.address.Local()
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
		ConnContext:       httpapi.WithConn,
		ErrorLog:          log.New(&observe.Log{To: s.log, Max: logLines, Period: logPeriod}, "", 0),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered like an unknown path
	}
	l.Private = s.api.IsPrivate(&l.Endpoint)
	l.private, l.serve, l.drain = l.Private, l.http.Serve, l.end
	s.ports = append(s.ports, &l.port)
	return l, nil
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
