package integrations

import (
	"net"
	"path"
	"strings"
)

// What follows is the options in the words of each proxy, for the templates.

// socket is the path of weir's unix socket, "" for TCP.
func (o Options) socket() string {
	p, ok := strings.CutPrefix(o.Weir, "unix:")
	if !ok {
		return ""
	}
	return p
}

// NginxWeir is weir's address in an upstream of nginx.
func (o Options) NginxWeir() string { return o.Weir } // unix:/path is nginx's own form

// NginxHeader is the variable of the key's header field.
func (o Options) NginxHeader() string {
	return "$http_" + strings.ReplaceAll(strings.ToLower(o.Header), "-", "_")
}

// SecretFile is the file that nginx includes for the secret.
func (o Options) SecretFile() string { return path.Join(o.Dir, "weir-gate-secret.conf") }

// HAProxyWeir is weir's address in a server line of HAProxy.
func (o Options) HAProxyWeir() string {
	if p := o.socket(); p != "" {
		return "unix@" + p
	}
	return o.Weir
}

// Lua is the path of weir.lua.
func (o Options) Lua() string { return path.Join(o.Dir, "weir.lua") }

// Abstract is the name of the socket through which HAProxy's Lua asks. It holds the
// port, so that two HAProxies of one machine do not answer each other.
func (o Options) Abstract() string {
	_, port, _ := net.SplitHostPort(o.Listen)
	return "weir-gate-" + port
}

// CaddyWeir is weir's address in a reverse_proxy of Caddy.
func (o Options) CaddyWeir() string {
	if p := o.socket(); p != "" {
		return "unix/" + p
	}
	return o.Weir
}

// CaddyListen is the address of a site of Caddy without TLS.
func (o Options) CaddyListen() string {
	host, port, _ := net.SplitHostPort(o.Listen)
	if host == "0.0.0.0" || host == "::" {
		return "http://:" + port
	}
	return "http://" + o.Listen
}

// Host is the host of weir's address.
func (o Options) Host() string {
	host, _, _ := net.SplitHostPort(o.Weir)
	return host
}

// Port is the port of weir's address.
func (o Options) Port() string {
	_, port, _ := net.SplitHostPort(o.Weir)
	return port
}
