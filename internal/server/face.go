package server

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/listen"
)

// face is a listener and what it answers. The main one answers everything but
// what is for operators; that is the admin one's, if there is one, and otherwise
// also the main one's.
type face struct {
	flag     string // that configures it, for messages
	address  listen.Address
	admin    bool
	shared   bool        // the main one, and there is no admin one
	local    bool        // only this machine reaches it
	verifies bool        // client certificates count
	tls      *tls.Config // nil without TLS
	conns    int
	names    *listen.Names // that Host fields of callers who show nothing may hold; nil = any

	http     *http.Server
	listener *listen.Listener // nil until open
	private  bool             // callers must show something, for anything but probes
	done     chan struct{}    // closed when http has left the listener
	leaving  atomic.Bool      // every answer tells its client to leave
}

// adminDefault is where operators are answered when the main listener can be
// reached from other machines and nothing else is said.
const adminDefault = "127.0.0.1:7072"

// newFaces makes the listeners of the configuration, not open yet.
func (s *Server) newFaces() error {
	var err error
	if s.main, err = s.newFace(&face{flag: "--listen"}, s.config.Listen); err != nil {
		return err
	}
	admin := s.config.AdminListen
	if admin == "" && !s.main.local {
		admin = adminDefault
	}
	s.splitDescriptors(admin != "")
	s.main.conns = s.portions.each
	if s.main.shared = admin == ""; s.main.shared {
		return nil
	}
	s.admin, err = s.newFace(&face{flag: "--admin-listen", admin: true, conns: s.portions.admin}, admin)
	return err
}

func (s *Server) newFace(f *face, address string) (_ *face, err error) {
	if f.address, err = listen.Parse(address); err != nil {
		return nil, fmt.Errorf("weir: cannot listen: %s: %w", f.flag, err)
	}
	f.local, f.done = f.address.Local(), make(chan struct{})
	f.tls = s.tlsOf(f)
	f.verifies = f.tls != nil && s.config.TLS.AcceptsClientCerts()
	f.names = s.namesOf(f)
	c := s.config.Limits
	f.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, f) }),
		ReadHeaderTimeout: c.ReadHeader,
		ReadTimeout:       c.Read,
		WriteTimeout:      c.Write,
		IdleTimeout:       c.Idle,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 100, MaxReceiveBufferPerConnection: maxBody, MaxReceiveBufferPerStream: maxBody},
		ConnState:         f.mark,
		ConnContext:       withConn,
		ErrorLog:          log.New(&complaints{log: s.log}, "", 0),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered like any path there is not
	}
	return f, nil
}

// mark notes which connections wait for an answer, or have just been made and are
// about to ask.
func (f *face) mark(c net.Conn, state http.ConnState) {
	f.listener.SetBusy(c, state == http.StateNew || state == http.StateActive)
}

// faces are the listeners, the main one first.
func (s *Server) faces() []*face {
	if s.admin == nil {
		return []*face{s.main}
	}
	return []*face{s.main, s.admin}
}

// answers reports whether a role is this listener's to answer.
func (f *face) answers(as role) bool {
	switch {
	case as == probes:
		return true
	case as == operates:
		return f.admin || f.shared
	}
	return !f.admin
}

// elsewhere says where what the listener does not answer is answered.
func (f *face) elsewhere() string {
	if f.admin {
		return "decisions and gates are answered by the listener of --listen"
	}
	return "what is for operators is answered by the listener of --admin-listen"
}

func (f *face) open(s *Server) (err error) {
	f.private = !s.knows(nobody, f)
	c := s.bounds(f.address, f.conns, f.private)
	c.TLS = f.tls
	f.listener, err = listen.Open(c)
	if err != nil {
		return fmt.Errorf("weir: cannot listen: %w", err)
	}
	return nil
}

// addr is the address listened on, before open the one that was asked for.
func (f *face) addr() string {
	if f.listener == nil || f.address.IsUnix() {
		return f.address.String()
	}
	return f.listener.Addr().String()
}

// url is what a client is told.
func (f *face) url() string {
	switch {
	case f.address.IsUnix():
		return f.addr()
	case f.tls != nil:
		return "https://" + f.addr()
	}
	return "http://" + f.addr()
}
