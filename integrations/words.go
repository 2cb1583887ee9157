package integrations

import (
	"net"
	"path"
	"strconv"
	"strings"
	"time"
)

// The methods below format options for the templates in the syntax of each proxy.

// Socket returns the path of weir's unix socket, "" for TCP.
func (o Options) Socket() string {
	if p, ok := strings.CutPrefix(o.Weir, "unix:"); ok {
		return p
	}
	return ""
}

// NginxHeader returns the variable of the key's header field.
func (o Options) NginxHeader() string {
	return "$http_" + strings.ReplaceAll(strings.ToLower(o.Header), "-", "_")
}

// Underscored returns the key's header field with underscores, which CGI and WSGI
// treat as the same field.
func (o Options) Underscored() string { return strings.ReplaceAll(o.Header, "-", "_") }

// SecretFile returns the file that nginx includes for the secret.
func (o Options) SecretFile() string { return path.Join(o.Dir, "weir-gate-secret.conf") }

// HAProxyWeir returns weir's address in a server line of HAProxy.
func (o Options) HAProxyWeir() string {
	if p := o.Socket(); p != "" {
		return "unix@" + p
	}
	return o.Weir
}

// Lua returns the path of weir.lua.
func (o Options) Lua() string { return path.Join(o.Dir, "weir.lua") }

// Abstract returns the name of the socket between HAProxy's Lua and weir. It contains
// the port, so that two HAProxies of one machine have different sockets.
func (o Options) Abstract() string {
	return "weir-gate-" + port(o.Listen)
}

// CaddyWeir returns weir's address in a reverse_proxy of Caddy.
func (o Options) CaddyWeir() string {
	if p := o.Socket(); p != "" {
		return "unix/" + p
	}
	return o.Weir
}

// CaddyListen returns the address of a site of Caddy without TLS.
func (o Options) CaddyListen() string {
	if h := host(o.Listen); h == "0.0.0.0" || h == "::" {
		return "http://:" + port(o.Listen)
	}
	return "http://" + o.Listen
}

// Seconds returns the timeout in Envoy's form of durations.
func (o Options) Seconds() string {
	d, _ := time.ParseDuration(o.Timeout)
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func host(address string) string {
	h, _, _ := net.SplitHostPort(address)
	return h
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}
