package server

import (
	"fmt"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// exposed returns an error for a listener that other machines can reach without a
// secret or certificate, nil if there is none.
func (s *Server) exposed() error {
	c := &s.config
	clients := c.TLS != nil && c.TLS.AcceptsClientCerts()
	for _, p := range s.ports {
		secret, flag := c.Auth.Token, "--token-file"
		if p.flag == adminFlag {
			secret, flag = c.Auth.Admin, "--admin-token-file"
		}
		if !p.address.Local() && secret == nil && !clients && !c.Insecure {
			return &listen.ExposedError{Flag: p.flag, Address: p.address, Next: flag + " FILE, or --tls-client-ca FILE with --tls-cert and --tls-key"}
		}
	}
	return nil
}

// checkGatesOnly returns an error for a listener on which no call could be authorised:
// one without gates, where the gate secret is the only secret.
func (s *Server) checkGatesOnly() error {
	if !s.api.GatesOnly() || s.config.TLS != nil && s.config.TLS.AcceptsClientCerts() {
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
