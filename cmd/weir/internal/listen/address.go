package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// unixPrefix begins the address of a unix socket.
const unixPrefix = "unix:"

// Address is an address to listen on. The zero value is none.
type Address struct {
	tcp  *net.TCPAddr // nil for a unix socket
	path string       // the path of the unix socket
	host string       // as written: a name, an address, or "" for every interface
}

// Parse reads host:port or unix:/path. It resolves a name once, so that Local describes
// the address that Open opens.
func Parse(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, unixPrefix); ok {
		if path == "" {
			const problem = "address unix: names no file; write unix:/run/weir/weir.sock"
			return Address{}, errors.New(problem)
		}
		return Address{path: path}, nil
	}
	if s == "" {
		return Address{}, errors.New("there is no address; write host:port or unix:/path")
	}
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		return Address{}, fmt.Errorf("%w; write host:port or unix:/path", err)
	}
	host, _, _ := net.SplitHostPort(s) // succeeds: s was resolved
	return Address{tcp: a, host: host}, nil
}

// Local reports whether only programs of this machine can reach the address: a unix
// socket or a loopback address. An address without a host is every interface, and not
// local.
func (a Address) Local() bool { return a.tcp == nil || a.tcp.IP.IsLoopback() }

// IsUnix reports whether the address is a unix socket.
func (a Address) IsUnix() bool { return a.tcp == nil }

// Is reports whether a socket is bound to the address. Every interface of IPv4 is another address
// than every interface.
func (a Address) Is(bound net.Addr) bool {
	switch b := bound.(type) {
	case *net.UnixAddr:
		return a.IsUnix() && a.path == b.Name
	case *net.TCPAddr:
		if a.IsUnix() || a.tcp.Port != b.Port || a.tcp.Zone != b.Zone {
			return false
		}
		return interfaceOf(a.tcp.IP).Equal(interfaceOf(b.IP))
	}
	return false
}

// interfaceOf returns the address as a socket shows it: without a host it is every interface.
func interfaceOf(ip net.IP) net.IP {
	if ip == nil {
		return net.IPv6unspecified
	}
	return ip
}

// String returns the address in the form that Parse reads.
func (a Address) String() string {
	if a.tcp == nil {
		return unixPrefix + a.path
	}
	return a.tcp.String()
}

// Names are the host names that a listener without authentication accepts in Host fields.
// localhost, addresses, and names that no public site can have, such as weir or
// weir.internal, are always accepted. The zero value adds none.
//
// They prevent DNS rebinding: a web page is loaded from its own site, and the site's name
// is then resolved to 127.0.0.1. The browser on this machine lets the page read the
// answers of the listener. Only the Host field reveals the page's site.
type Names struct{ all []string }

// ParseNames reads names such as weir.example.com, without ports.
func ParseNames(all ...string) (n Names, err error) {
	for _, name := range all {
		if !isName(name) {
			return n, fmt.Errorf("%q is not a host name; write the name alone, such as weir.example.com, "+
				"without a port or a scheme", name)
		}
		n.all = append(n.all, canonical(name))
	}
	return n, nil
}

// With returns these names and the host name of an address, if it has one.
func (n Names) With(a Address) Names {
	if !isName(a.host) {
		return n
	}
	return Names{append(slices.Clone(n.all), canonical(a.host))}
}

// Has reports whether a Host field, with or without a port, is accepted. A request
// without the field is accepted: browsers always send it.
func (n Names) Has(host string) bool {
	if host == "" {
		return true
	}
	name := (&url.URL{Host: host}).Hostname()
	if known := canonical(name); isLocal(known) || slices.Contains(n.all, known) {
		return true
	}
	_, err := netip.ParseAddr(name)
	if err != nil { // perhaps an IPv6 address without a port, which Hostname has cut
		_, err = netip.ParseAddr(strings.Trim(host, "[]"))
	}
	return err == nil
}

// Empty reports whether there are no names beside those that are always accepted.
func (n Names) Empty() bool { return len(n.all) == 0 }

// canonical returns the form in which names are compared: lower case, without a final
// dot.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// isLocal reports whether no public site can have the name. It has one label, as
// containers of a composition and services of a cluster have, or is below localhost
// (RFC 6761) or internal, which ICANN reserves: host.docker.internal is one.
func isLocal(name string) bool {
	isReserved := strings.HasSuffix(name, ".localhost") || strings.HasSuffix(name, ".internal")
	return isName(name) && (isReserved || !strings.Contains(name, "."))
}

// isName reports whether name is a host name of letters, digits, dashes, underscores and
// dots.
func isName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	rest := strings.Trim(name, letters+"0123456789-._")
	return canonical(name) != "" && len(name) <= 253 && rest == ""
}
