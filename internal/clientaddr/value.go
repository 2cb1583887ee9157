package clientaddr

import (
	"fmt"
	"net/netip"
	"strings"
)

// The range of the length of an IPv6 prefix that is counted as one client.
const (
	MinBits = 32
	MaxBits = 128
)

// Canonical returns the counted form of a value, as [Key] does. The value is an address as
// [ParseNode] reads it, or a network within one client, such as a counted form. It
// allocates only if the form differs from the value.
func Canonical(value string, bits int) (form string, ok bool) {
	unit, ok := unitOf(value, bits)
	if !ok {
		return "", false
	}
	var space [64]byte // more than any form has
	b := appendUnit(space[:0], unit)
	if string(b) == value {
		return value, true
	}
	return string(b), true
}

// Kind returns the words that complete "is not an address" for a value that [Canonical] rejects,
// and the next step. They do not show the value, because logs name no values of keys.
func Kind(value string) (kind, next string) {
	isAddress := func(text string) bool {
		_, ok := ParseNode(text)
		return ok
	}
	trimmed := strings.TrimSpace(value)
	_, notNetwork := netip.ParsePrefix(trimmed)
	switch {
	case IsList(value):
		return " but a list of addresses", "send the last one, if your own proxy wrote it"
	case notNetwork == nil && trimmed == value:
		return " but a network of several clients", "send the address of one of them"
	case trimmed != value && (isAddress(trimmed) || notNetwork == nil):
		return " because of the space around it", "send it without space"
	case isAddress(withoutZeros(value)):
		return " because of leading zeros, which some programs read as octal",
			"send it without them"
	case IsSocket(value):
		return " but a Unix socket", "send the address of the client that the proxy passes on"
	}
	return "", "send one such as 192.0.2.7 or 2001:db8::1"
}

// IsList reports whether a text is a list with commas, such as X-Forwarded-For, that ends with an
// address.
func IsList(text string) bool {
	i := strings.LastIndexByte(text, ',')
	if i < 0 {
		return false
	}
	_, ok := ParseNode(strings.Trim(text[i+1:], " \t"))
	return ok
}

// IsSocket reports whether a text is the peer of a Unix socket, as nginx logs it.
func IsSocket(text string) bool { return strings.HasPrefix(text, "unix:") }

// withoutZeros returns a text without leading zeros in the parts of an IPv4 address.
func withoutZeros(text string) string {
	parts := strings.Split(text, ".")
	for i, part := range parts {
		if trimmed := strings.TrimLeft(part, "0"); trimmed != "" &&
			trimmed[0] >= '1' && trimmed[0] <= '9' {
			parts[i] = trimmed
		} else if trimmed == "" && part != "" {
			parts[i] = "0"
		}
	}
	return strings.Join(parts, ".")
}

// unitOf returns the addresses that are counted together with those of a value.
func unitOf(value string, bits int) (unit netip.Prefix, ok bool) {
	if !strings.Contains(value, "/") {
		a, ok := ParseNode(value)
		return Prefix(a, bits), ok
	}
	n, err := netip.ParsePrefix(value)
	if err != nil {
		return unit, false
	}
	unit = Prefix(n.Addr(), bits)
	return unit, freeBits(n) <= freeBits(unit)
}

// freeBits returns the number of bits in which the addresses of a prefix differ.
func freeBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

// appendUnit appends the text of a result of Prefix, as Key returns it.
func appendUnit(b []byte, unit netip.Prefix) []byte {
	if unit.IsSingleIP() {
		return unit.Addr().AppendTo(b)
	}
	return unit.AppendTo(b)
}

// Range is the addresses that an override names: those of one client, or a network of
// several clients.
type Range struct {
	netip.Prefix
	One bool // one client
}

// Text returns the range as text. That of one client is the counted form of its addresses.
func (r Range) Text() string {
	if r.One {
		return string(appendUnit(nil, r.Prefix))
	}
	return r.String()
}

// Free returns the number of bits in which the addresses of a network differ, 0 for one
// client. Of two ranges with a client in common, the one with fewer has the longer prefix.
func (r Range) Free() int {
	if r.One {
		return 0
	}
	return freeBits(r.Prefix)
}

// RangeError is the reason why a text names no range, with the next step.
type RangeError struct{ Problem, Next string }

// Error returns both.
func (e *RangeError) Error() string { return e.Problem + "; " + e.Next }

// ParseRange reads an address as [ParseNode] does, or a network such as 10.0.0.0/8. A
// network of IPv4 addresses that IPv6 embeds is one of IPv4 addresses. bits is the length
// of the IPv6 prefix that is counted as one client; a longer prefix is an error.
func ParseRange(text string, bits int) (Range, *RangeError) {
	if !strings.Contains(text, "/") {
		a, ok := ParseNode(text)
		if !ok {
			return Range{}, &RangeError{"is not an address",
				"write one such as 192.0.2.7 or 2001:db8::1, or a network such as 10.0.0.0/8"}
		}
		return Range{Prefix(a, bits), true}, nil
	}
	n, err := netip.ParsePrefix(text)
	if err != nil {
		return Range{}, &RangeError{
			"is not a network",
			"write one such as 10.0.0.0/8 or 2001:db8::/32",
		}
	}
	if n != n.Masked() {
		return Range{}, &RangeError{"has bits beyond its prefix",
			fmt.Sprintf("write %s for the network, or %s for the address", n.Masked(), n.Addr())}
	}
	n = unembed(n)
	most := unitBits(n, bits)
	if n.Bits() > most {
		unit, _ := n.Addr().Prefix(most)
		return Range{}, &RangeError{
			fmt.Sprintf("is a part of %v, which is counted as one client", unit),
			fmt.Sprintf("write %v, or count by longer prefixes: address/%d", unit, n.Bits()),
		}
	}
	return Range{n, n.Bits() == most}, nil
}

// unitBits returns the length of the prefixes that are counted as one client within a network.
func unitBits(n netip.Prefix, bits int) int {
	if a := n.Addr(); a.Is4() || nat64Local.Contains(a) && n.Bits() >= nat64Local.Bits() {
		return a.BitLen()
	}
	return bits
}

// unembed returns the network of IPv4 addresses that a network of IPv6 addresses embeds, as
// Prefix counts them, and other networks as they are.
func unembed(n netip.Prefix) netip.Prefix {
	a := n.Addr()
	if n.Bits() < 96 || !a.Is6() || !a.Is4In6() && !nat64.Contains(a) {
		return n
	}
	b := a.As16()
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[12:])), n.Bits()-96)
}

// Hidden returns a text for a client of a network, which shows the network and a hash of the
// address.
func Hidden(network netip.Prefix, hash string) string { return network.String() + "#" + hash }

// Known returns the known bits of the address with a counted form: all of an address alone,
// otherwise those of the prefix. Of a text of Hidden these are the bits of the network. The
// zero Prefix stands for other texts.
func Known(form string) netip.Prefix {
	form, _, _ = strings.Cut(form, "#")
	if strings.Contains(form, "/") {
		p, _ := netip.ParsePrefix(form)
		return p
	}
	a, err := netip.ParseAddr(form)
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, a.BitLen())
}
