package server

import (
	"fmt"

	"github.com/weirlimit/weir/internal/listen"
)

// exposed returns an error for a listener that other machines can reach without a
// secret or certificate, nil if there is none.
func (s *Server) exposed() error {
	c := &s.config
	clients := c.TLS != nil && c.TLS.AcceptsClientCerts()
	unprotected := func(flag string, address listen.Address, secret *listen.Secret, secretFlag string) error {
		if address.Local() || secret != nil || clients || c.Insecure {
			return nil
		}
		return &listen.ExposedError{Flag: flag, Address: address, Next: secretFlag + " FILE, or --tls-client-ca FILE with --tls-cert and --tls-key"}
	}
	if err := unprotected("--listen", s.main.address, c.Auth.Token, "--token-file"); err != nil {
		return err
	}
	if s.admin != nil {
		if err := unprotected("--admin-listen", s.admin.address, c.Auth.Admin, "--admin-token-file"); err != nil {
			return err
		}
	}
	if s.rpc != nil {
		if err := unprotected("--grpc-listen", s.rpc.address, c.Auth.Token, "--token-file"); err != nil {
			return err
		}
	}
	if s.resp != nil {
		return unprotected("--resp-listen", s.resp.address, c.Auth.Token, "--token-file")
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
	warn := func(flag string, address listen.Address, tls bool, risk string) {
		switch {
		case address.Local():
		case s.config.Insecure:
			all = append(all, flag+" "+address.String()+" can be reached from other machines; --insecure-listen lets anybody there "+risk)
		case !tls:
			all = append(all, flag+" "+address.String()+" speaks without TLS: tokens cross the network in the clear; set --tls-cert and --tls-key")
		}
	}
	if s.resp != nil {
		warn("--resp-listen", s.resp.address, s.config.TLS != nil, "charge and reset every key")
	}
	for _, l := range s.listeners() {
		warn(l.flag, l.address, l.tls != nil, "charge and reset every key")
	}
	if s.rpc != nil {
		warn("--grpc-listen", s.rpc.address, s.rpc.tls != nil, "charge every key")
	}
	return all
}
