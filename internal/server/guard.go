package server

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/weirhttp"
)

// Guards are the secrets of callers. Without any, calls need none, and then New refuses
// to listen where other machines can reach it. With Gate alone only gates are open.
type Guards struct {
	Token *listen.Secret // opens decisions and gates, as Authorization: Bearer
	Gate  *listen.Secret // opens gates alone, as GateHeader
	Admin *listen.Secret // opens what operators do, as Authorization: Bearer; default: what Token opens, where they share a listener
}

// GateHeader is the header field in which a proxy shows the secret of gates. It is
// no Authorization field since proxies forward that of their own clients.
const GateHeader = "Weir-Gate-Secret"

// role is what a path is for, and so who may call it.
type role uint8

const (
	operates role = iota // changes or shows what concerns all callers: metrics, forgetting keys, whatever is not listed below
	decides              // decisions
	gates                // decisions for proxies
	probes               // whether the process is well; shown to everybody
)

// roles lists the paths that are not for operators alone.
var roles = map[string]role{
	"/livez": probes, "/readyz": probes, "/healthcheck": probes,
	"/v1/check": decides, "/v1/peek": decides, "/v1/record": decides, "/v1/refund": decides,
	"/v1/reserve": decides, "/v1/settle": decides, "/v1/release": decides, "/v1/policies": decides, "/json": decides,
}

func roleOf(path string) role {
	if strings.HasPrefix(path, gatePath) {
		return gates
	}
	return roles[path]
}

// mayCall reports whether the caller has shown what a role asks for on a listener.
func (s *Server) mayCall(r *http.Request, as role, on *face) bool {
	g := &s.config.Guards
	bearer := func(secret *listen.Secret) bool {
		return secret.Matches(listen.Bearer(r.Header.Get("Authorization")))
	}
	switch as {
	case probes:
		return true
	case operates:
		if g.Admin != nil {
			return bearer(g.Admin)
		}
		if on.admin && on.local {
			return true
		}
	case gates:
		if g.Gate.Matches(r.Header.Get(GateHeader)) {
			return true
		}
		if g.Gate != nil && g.Token == nil && !on.asksClients() {
			return false
		}
	}
	switch {
	case on.asksClients() && s.config.TLS.Verified(connOf(r), r.TLS):
		return true
	case g.Token != nil:
		return bearer(g.Token)
	}
	return !on.asksClients() && !s.gatesOnly()
}

// gatesOnly reports whether the secret of gates is set and no token: then nothing opens
// any other call, unless --insecure-listen does.
func (s *Server) gatesOnly() bool {
	c := &s.config
	return c.Guards.Gate != nil && c.Guards.Token == nil && !c.Insecure
}

// knows reports whether the caller has shown what the listener asks for, for what
// it answers beyond probes.
func (s *Server) knows(r *http.Request, on *face) bool {
	if on.admin {
		return s.mayCall(r, operates, on)
	}
	return s.mayCall(r, decides, on)
}

// unauthorized answers a caller that has not shown what it must, and closes its
// connection. The status is 401, which proxies take for a failure of ours or pass on,
// never for a denial.
func (s *Server) unauthorized(w http.ResponseWriter, as role) {
	s.strangers.Add(1)
	w.Header()["Connection"] = closes
	w.Header()["Www-Authenticate"] = challenge
	next := "send Authorization: Bearer TOKEN, with the token of this listener"
	switch {
	case as == gates:
		next = "send " + GateHeader + ", with the secret of --gate-secret-file"
	case s.gatesOnly() && (as != operates || s.config.Guards.Admin == nil):
		next = "weir serve has a --gate-secret-file and no token, so only gates are open; " +
			"a --token-file, and for operators an --admin-token-file or --admin-listen, opens other calls with a token, --insecure-listen without"
	}
	weirhttp.WriteError(w, http.StatusUnauthorized, "authentication required: "+next)
}

var challenge = []string{`Bearer realm="weir"`}

// exposed returns why the server may not listen where its configuration says, nil
// if it may.
func (s *Server) exposed() error {
	c := &s.config
	clients := c.TLS != nil && c.TLS.AcceptsClientCerts()
	if !s.main.local && c.Guards.Token == nil && !clients && !c.Insecure {
		return &listen.ExposedError{Flag: "--listen", Address: s.main.address,
			Next: "--token-file FILE, or --tls-client-ca FILE with --tls-cert and --tls-key"}
	}
	if s.admin != nil && !s.admin.local && c.Guards.Admin == nil && !clients && !c.Insecure {
		return &listen.ExposedError{Flag: "--admin-listen", Address: s.admin.address,
			Next: "--admin-token-file FILE, or --tls-client-ca FILE with --tls-cert and --tls-key"}
	}
	if s.rpc != nil {
		return s.rpc.exposed()
	}
	return nil
}

// closed returns an error for a listener on which no call could be authorised, since it
// has no gates and the secret of gates is the only one.
func (s *Server) closed() error {
	if !s.gatesOnly() || s.config.TLS != nil && s.config.TLS.AcceptsClientCerts() {
		return nil
	}
	for _, flag := range []struct{ name, value string }{{"--resp-listen", s.config.RESPListen}, {"--grpc-listen", s.config.GRPCListen}} {
		if flag.value != "" {
			return fmt.Errorf("%s %s has no gates, and --gate-secret-file without a token opens gates alone; set --token-file FILE, or --insecure-listen",
				flag.name, flag.value)
		}
	}
	return nil
}

// Warnings are what an operator should know about who can reach the server. They
// are for after New.
func (s *Server) Warnings() (all []string) {
	if warning := s.portions.warning(); warning != "" {
		all = append(all, warning)
	}
	if f := s.resp; f != nil && !f.address.Local() {
		switch {
		case s.config.Insecure:
			all = append(all, "--resp-listen "+f.address.String()+" can be reached from other machines; --insecure-listen lets anybody there charge and reset every key")
		case s.config.TLS == nil:
			all = append(all, "--resp-listen "+f.address.String()+" speaks without TLS: tokens cross the network in the clear; set --tls-cert and --tls-key")
		}
	}
	for _, f := range s.faces() {
		switch {
		case f.local:
		case s.config.Insecure:
			all = append(all, f.flag+" "+f.address.String()+" can be reached from other machines; --insecure-listen lets anybody there charge and reset every key")
		case f.tls == nil:
			all = append(all, f.flag+" "+f.address.String()+" speaks without TLS: tokens cross the network in the clear; set --tls-cert and --tls-key")
		}
	}
	if s.rpc != nil {
		if warning := s.rpc.warning(); warning != "" {
			all = append(all, warning)
		}
	}
	return all
}

// nobody is a caller that shows nothing.
var nobody = new(http.Request)

// misled reports whether a page in a browser may have sent the request under a name
// of its own site that was made to stand for this machine (DNS rebinding). It cannot
// where callers must show something, for such a page has nothing to show.
//
// A gate is not looked at: proxies send what name they like, their client's own among
// them. All a page can do there is to charge keys, as it can with a plain link; the
// secret of gates keeps it from that.
func (s *Server) misled(r *http.Request, as role, on *face) bool {
	return on.names != nil && !on.names.Has(r.Host) && as != gates && s.mayCall(nobody, as, on)
}

// refuseName answers a caller that calls this machine by another's name.
func (s *Server) refuseName(w http.ResponseWriter, host string) {
	weirhttp.WriteError(w, http.StatusForbidden, "the Host field names "+answer.Shown(host)+
		", and a page of that site may not call this; use localhost, an IP address, or a name that weir serve was given by --host NAME, or have it ask for a token")
}

// namesOf are the names a listener answers to. Browsers reach no unix socket, and over
// TLS they see that the certificate is not of the site they think they call. Who
// opens a listener to other machines is called by names it cannot know, unless it
// gives some.
func (s *Server) namesOf(f *face) *listen.Names {
	if f.address.IsUnix() || f.tls != nil || !f.local && s.config.Hosts.Empty() {
		return nil
	}
	names := s.config.Hosts.With(f.address)
	return &names
}

// asksClients reports whether clients may show certificates in place of a token.
func (f *face) asksClients() bool { return f.tls != nil && f.verifies }

// tlsOf returns what a listener speaks: TLS wherever it is configured, except on
// unix sockets and on an admin listener that only this machine reaches.
func (s *Server) tlsOf(f *face) *tls.Config {
	if s.config.TLS == nil || f.address.IsUnix() || f.admin && f.local {
		return nil
	}
	return s.config.TLS.Config("h2", "http/1.1")
}
