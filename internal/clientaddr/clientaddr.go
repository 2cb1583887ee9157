// Package clientaddr returns the addresses that are counted as one client. Every part of
// the module that counts or bounds by address uses it, so that all use one form.
package clientaddr

import "net/netip"

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
