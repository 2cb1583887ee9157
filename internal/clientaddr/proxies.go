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

// CutNode splits the last address off a header's text. more reports that text is left; ok
// is false if the last element is not an address.
type CutNode func(text string) (a netip.Addr, rest string, more, ok bool)

// Follow reads addresses of a header from the peer at towards the client, and returns the
// first that is not a trusted proxy, or the leftmost. more reports whether there is a
// header. ok is false if an element that a trusted proxy wrote is not an address.
func (p Proxies) Follow(at netip.Addr, text string, more bool, cut CutNode) (client netip.Addr, ok bool) {
	for more && p.Trusts(at) {
		if at, text, more, ok = cut(text); !ok {
			return at, false
		}
	}
	return at, true
}

// CutForwardedFor splits the last element off the text of X-Forwarded-For.
func CutForwardedFor(text string) (a netip.Addr, rest string, more, ok bool) {
	rest, element, more := CutAt(text, strings.LastIndexByte(text, ','))
	a, ok = ParseNode(strings.Trim(element, " \t"))
	return a, rest, more, ok
}

// CutAt splits text around the comma at index i. If i < 0, element is the whole text.
func CutAt(text string, i int) (rest, element string, more bool) {
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
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
