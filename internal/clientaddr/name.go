package clientaddr

import (
	"net/netip"
	"slices"
	"strings"
)

// IsName reports whether a key is called like the address of a client: a part of its
// name is, as in client_ip, remote-addr or clientip.
func IsName(name string) (is bool) {
	parts := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_.", r) })
	for _, part := range parts {
		if slices.Contains(otherAddresses, part) {
			return false
		}
		for _, word := range addressWords {
			rest, ends := strings.CutSuffix(part, word)
			is = is || ends && (rest == "" || slices.Contains(clientWords, rest))
		}
	}
	return is
}

// Words in the names of keys with addresses. Not each word that ends with ip is one of them:
// vip, zip and membership are none.
var (
	addressWords = []string{"ip", "ipv4", "ipv6", "addr", "address", "ipaddr", "ipaddress"}
	clientWords  = []string{
		"client", "remote", "peer", "user", "source", "src", "real", "origin", "host", "caller",
		"visitor",
	}
	otherAddresses = []string{"email", "mail", "mac", "wallet"}
)

// IsNetwork reports whether a value is a network of several clients.
func IsNetwork(value string) bool {
	_, err := netip.ParsePrefix(value)
	_, one := Canonical(value, Bits)
	return err == nil && !one
}
