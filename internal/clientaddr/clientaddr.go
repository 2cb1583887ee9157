// Package clientaddr returns the addresses that are counted as one client. Every part of
// the module that counts or bounds by address uses it, so that all use one form.
package clientaddr

import (
	"net/netip"
	"slices"
	"strings"
)

// Bits is the default length of the IPv6 prefix that is counted as one client: a
// subscriber has a /64, and can use each of its addresses.
const Bits = 64

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052: an IPv4 address in the last 32 bits
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215: an IPv4 address, at a place that the operator chooses
)

// Prefix returns the addresses that are counted together with a: an IPv4 address alone,
// also one that IPv6 embeds, and of any other IPv6 address the prefix of that many bits.
//
// A client behind NAT64 has one IPv4 address and no /64: the translator's prefix holds
// all its clients. Of a local prefix (RFC 8215) the place of the IPv4 address is not
// known, so the whole address counts.
func Prefix(a netip.Addr, bits int) netip.Prefix {
	a = a.Unmap().WithZone("")
	switch {
	case nat64.Contains(a):
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	case a.Is6() && !nat64Local.Contains(a):
		p, _ := a.Prefix(bits) // bits are in range
		return p
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// Key returns Prefix as text: 192.0.2.1, 2001:db8:1:2::/64, or a whole IPv6 address.
func Key(a netip.Addr, bits int) string {
	p := Prefix(a, bits)
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

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
	return slices.ContainsFunc(p, func(r netip.Prefix) bool { return r.Contains(a) })
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
