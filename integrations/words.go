package integrations

import (
	"net"
	"path"
	"strconv"
	"strings"
	"time"
)

// The methods below give the options to the templates, in the words of each proxy.

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

// Underscored is the key's header field with underscores, which gateways of
// applications (CGI, WSGI) take for the same field.
func (o Options) Underscored() string { return strings.ReplaceAll(o.Header, "-", "_") }

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

// Abstract is the name of the socket between HAProxy's Lua and weir. It holds the
// port, so that two HAProxies of one machine do not answer each other.
func (o Options) Abstract() string {
	return "weir-gate-" + port(o.Listen)
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
	if h := host(o.Listen); h == "0.0.0.0" || h == "::" {
		return "http://:" + port(o.Listen)
	}
	return "http://" + o.Listen
}

// Socket is the path of weir's unix socket, "" for TCP.
func (o Options) Socket() string { return o.socket() }

// Seconds is the timeout as Envoy writes durations.
func (o Options) Seconds() string {
	d, _ := time.ParseDuration(o.Timeout)
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// ListenHost is the host where the proxy listens.
func (o Options) ListenHost() string { return host(o.Listen) }

// ListenPort is the port where the proxy listens.
func (o Options) ListenPort() string { return port(o.Listen) }

// WeirHost is the host of weir.
func (o Options) WeirHost() string { return host(o.Weir) }

// WeirPort is the port of weir.
func (o Options) WeirPort() string { return port(o.Weir) }

// AppHost is the host of the application.
func (o Options) AppHost() string { return host(o.App) }

// AppPort is the port of the application.
func (o Options) AppPort() string { return port(o.App) }

func host(address string) string {
	h, _, _ := net.SplitHostPort(address)
	return h
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}
