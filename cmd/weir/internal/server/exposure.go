package server

import "fmt"

// exposed returns an error for a listener that other machines can reach without a
// secret or certificate, nil if there is none.
func (s *Server) exposed() error {
	c := &s.config
	for _, p := range s.ports {
		secret, flag := c.Auth.Token, "--token-file"
		if p.flag == adminFlag {
			secret, flag = c.Auth.Admin, "--admin-token-file"
		}
		if !p.address.Local() && secret == nil && !c.TLS.AcceptsClientCerts() && !c.Insecure {
			return fmt.Errorf("%s %s can be reached from other machines without authentication; set %s FILE, or --tls-client-ca FILE with --tls-cert and --tls-key, or listen on 127.0.0.1 or unix:/path",
				p.flag, p.address, flag)
		}
	}
	return nil
}

// checkGatesOnly returns an error for a listener on which no call could be authorised:
// one without gates, where the gate secret is the only secret.
func (s *Server) checkGatesOnly() error {
	if !s.api.GatesOnly || s.config.TLS.AcceptsClientCerts() {
		return nil
	}
	for _, flag := range []struct{ name, value string }{{respFlag, s.config.RESPListen}, {grpcFlag, s.config.GRPCListen}} {
		if flag.value != "" {
			return fmt.Errorf("%s %s has no gates, and --gate-secret-file without a token opens gates alone; set --token-file FILE, or --insecure-listen",
				flag.name, flag.value)
		}
	}
	return nil
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
		switch where := p.flag + " " + p.address.String(); {
		case p.address.Local():
		case s.config.Insecure:
			all = append(all, where+" can be reached from other machines; --insecure-listen lets anybody there "+risk)
		case p.tls == nil:
			all = append(all, where+" speaks without TLS: tokens cross the network in the clear; set --tls-cert and --tls-key")
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
	return fmt.Sprintf("%d file descriptors allow %d connections to each listener, further ones are refused; raise ulimit -n, or LimitNOFILE= of systemd", p.descriptors, p.each)
}
