package listen

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Names are what a listener that asks nothing of its callers may be called in their
// Host fields: besides localhost, addresses, and names that no stranger's site can have,
// such as weir or weir.internal. The zero value has none.
//
// A page in a browser of this machine can be served under a name of its own site, and
// that name can then be made to stand for 127.0.0.1 (DNS rebinding). For the browser
// the page may read whatever it asks there; only the Host field tells.
type Names struct{ all []string }

// ParseNames reads names such as weir.example.com, without ports.
func ParseNames(all ...string) (n Names, err error) {
	for _, name := range all {
		if !isName(name) {
			return n, fmt.Errorf("%q is no name of a host; write the name alone, such as weir.example.com, without a port or a scheme", name)
		}
		n.all = append(n.all, canonical(name))
	}
	return n, nil
}

// With returns these names and the one by which an address was written, if it was.
func (n Names) With(a Address) Names {
	if !isName(a.host) {
		return n
	}
	return Names{append(slices.Clone(n.all), canonical(a.host))}
}

// Has reports whether a Host field, with or without a port, names this listener. A
// request without one comes from no browser.
func (n Names) Has(host string) bool {
	if host == "" {
		return true
	}
	name := withoutPort(host)
	if bare, ok := strings.CutPrefix(name, "["); ok {
		name = strings.TrimSuffix(bare, "]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = canonical(name)
	return isLocal(name) || slices.Contains(n.all, name)
}

// Empty reports whether there are none but those that nobody can forge.
func (n Names) Empty() bool { return len(n.all) == 0 }

// withoutPort cuts the digits of a port.
func withoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.IndexByte(host, ':') != colon && host[colon-1] != ']' {
		return host // no colon, or an IPv6 address without brackets
	}
	return host[:colon]
}

// canonical is the form in which names are compared: DNS knows no capitals, and a dot
// at the end means nothing.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// isLocal reports whether a name is of one label, as those of a composition's
// containers or a cluster's services are, or below localhost (RFC 6761) or internal,
// which ICANN keeps for private use: host.docker.internal is one. The world's DNS has
// no site of such a name.
func isLocal(name string) bool {
	return isName(name) && (!strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") || strings.HasSuffix(name, ".internal"))
}

// isName reports whether name is one that a URL can hold: letters, digits, dashes,
// underscores and dots.
func isName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return canonical(name) != "" && len(name) <= 253
}
