// Package clientaddr returns the addresses that are counted as one client. Every part of
// the module that counts or bounds by address uses it, so that all use one form.
package clientaddr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Bits is the default length of the IPv6 prefix that is counted as one client: a
// subscriber has a /64, and can use each of its addresses.
const Bits = 64

var (
	// nat64 has an IPv4 address in the last 32 bits (RFC 6052).
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// nat64Local has an IPv4 address at a place that the operator chooses (RFC 8215).
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
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

var carriers = netip.MustParsePrefix("100.64.0.0/10")

// Private are the ranges of addresses that no client on the Internet has: of private networks
// (RFC 1918, RFC 4193), of carriers (RFC 6598), of links and of this host.
var Private = Proxies{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	carriers,
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fc00::/7"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("::1/128"),
}

// IsPrivate reports whether an address, as ParseNode returns it, is in one of the Private
// ranges. It is faster than a search of these.
func IsPrivate(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || carriers.Contains(a)
}

// forwarded is the field of RFC 7239, whose elements are not mere addresses.
const forwarded = "Forwarded"

// ForwardingFields are the fields of a header in which proxies pass the address of a client
// on, as net/http spells them.
var ForwardingFields = []string{
	"X-Forwarded-For", forwarded, "X-Real-Ip", "X-Client-Ip", "Cf-Connecting-Ip", "True-Client-Ip",
}

// ForwardingField returns the first of the fields in which proxies pass the address of a
// client on; "" if the header has none.
func ForwardingField(header map[string][]string) string {
	for _, name := range ForwardingFields {
		if header[name] != nil {
			return name
		}
	}
	return ""
}

// ForwardedClient returns a field in which proxies pass on the address of a client on the
// Internet; "" if the header has none.
func ForwardedClient(header map[string][]string) (field string) {
	for _, name := range ForwardingFields {
		lines := header[name]
		if len(lines) == 0 {
			continue
		}
		text := strings.Join(lines, ",")
		if name == forwarded {
			text = nodesOf(text)
		}
		at, ok := Private.Follow(Private[0].Addr(), text, true)
		if ok && !IsPrivate(at) {
			return name
		}
	}
	return ""
}

// nodesOf returns the values of for= in Forwarded (RFC 7239), in the form of X-Forwarded-For.
// A quoted comma splits an element, which is of no concern: no address has one.
func nodesOf(field string) string {
	var nodes []string
	for element := range strings.SplitSeq(field, ",") {
		for pair := range strings.SplitSeq(element, ";") {
			name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
			if strings.EqualFold(name, "for") {
				nodes = append(nodes, strings.Trim(value, `"`))
			}
		}
	}
	return strings.Join(nodes, ",")
}

// IsPrivateText reports whether a text is an address of the Private ranges, or the counted
// form of one.
func IsPrivateText(text string) bool {
	if !strings.ContainsAny(text, ".:") { // most names of clients; a failed parse is slower
		return false
	}
	if a, ok := ParseNode(text); ok {
		return IsPrivate(a)
	}
	return IsPrivate(Known(text).Addr())
}

// Wide returns the reason why a range of trusted proxies is probably a mistake, "" if it is
// none: each of its addresses can name any client.
func Wide(r netip.Prefix) string {
	n, least := unmap(r), 8
	if n.Addr().Is6() {
		least = 16
	}
	if !n.IsValid() {
		return "is not a valid range"
	}
	if n.Bits() >= least {
		return ""
	}
	return fmt.Sprintf("is wider than /%d, so %s addresses could name any client",
		least, share(n.Bits()))
}

// share returns the share of all addresses in a range of some bits.
func share(bits int) string {
	if bits == 0 {
		return "all"
	}
	return fmt.Sprintf("1 of %d", 1<<bits)
}

// unmap returns the range of IPv4 addresses that a range of mapped addresses stands for, and
// other ranges as they are.
func unmap(r netip.Prefix) netip.Prefix {
	if a := r.Addr(); a.Is4In6() && r.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), r.Bits()-96)
	}
	return r
}

// Proxies are the addresses of trusted proxies. The nil Proxies trust no header.
type Proxies []netip.Prefix

// With returns p with another range. A range of IPv4 addresses that IPv6 embeds is one of
// IPv4 addresses.
func (p Proxies) With(r netip.Prefix) Proxies { return append(p, unmap(r).Masked()) }

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
