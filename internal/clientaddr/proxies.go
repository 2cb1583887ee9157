package clientaddr

import (
	"net/netip"
	"strings"
)

// Proxies are the addresses of trusted proxies. The nil Proxies trust no header.
type Proxies []netip.Prefix

// With returns p with another range. A range of IPv4 addresses that IPv6 embeds is one of
// IPv4 addresses.
func (p Proxies) With(r netip.Prefix) Proxies {
	if a := r.Addr(); a.Is4In6() && r.Bits() >= 96 {
		r = netip.PrefixFrom(a.Unmap(), r.Bits()-96)
	}
	return append(p, r.Masked())
}

// Trusts reports whether an address is that of a trusted proxy.
func (p Proxies) Trusts(a netip.Addr) bool {
	for _, r := range p {
		if r.Contains(a) {
			return true
		}
	}
	return false
}

// Follow reads the addresses of X-Forwarded-For from the peer at towards the client, and
// returns the first that is not a trusted proxy, or the leftmost. more reports whether there
// is a header. ok is false if an element that a trusted proxy wrote is not an address.
func (p Proxies) Follow(at netip.Addr, text string, more bool) (client netip.Addr, ok bool) {
	for more && p.Trusts(at) {
		i := strings.LastIndexByte(text, ',')
		if at, ok = ParseNode(strings.Trim(text[i+1:], " \t")); !ok {
			return at, false
		}
		text, more = text[:max(i, 0)], i >= 0
	}
	return at, true
}

// ParseNode reads an address in the forms that peers and proxies write: 192.0.2.1,
// 192.0.2.1:80, 2001:db8::1, [2001:db8::1] and [2001:db8::1]:80, with or without a zone.
// The result is unmapped and has no zone.
func ParseNode(s string) (a netip.Addr, ok bool) {
	var err error
	switch inner, bracketed := strings.CutPrefix(s, "["); {
	case bracketed && strings.HasSuffix(inner, "]"):
		if a, err = netip.ParseAddr(inner[:len(inner)-1]); a.Is4() {
			return a, false
		}
	case bracketed || strings.Count(s, ":") == 1:
		var node netip.AddrPort
		node, err = netip.ParseAddrPort(s)
		a = node.Addr()
	default:
		a, err = netip.ParseAddr(s)
	}
	return a.Unmap().WithZone(""), err == nil && !strings.Contains(a.Zone(), "]")
}
