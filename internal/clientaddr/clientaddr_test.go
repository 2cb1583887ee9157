package clientaddr

import (
	"net/netip"
	"testing"
)

// TestIsPrivateAgreesWithTheRanges at the ends of each of them.
func TestIsPrivateAgreesWithTheRanges(t *testing.T) {
	for _, r := range append(Private, netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")) {
		first := r.Addr()
		for _, a := range []netip.Addr{first.Prev(), first, first.Next()} {
			if got := IsPrivate(a); got != Private.Trusts(a) {
				t.Errorf("%s: %v, and the ranges say %v", a, got, !got)
			}
		}
	}
}

func TestForwardedClient(t *testing.T) {
	for _, c := range []struct{ field, value, client, want string }{
		{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-For", "X-Forwarded-For"},
		{"X-Forwarded-For", "forged, 203.0.113.9, 10.0.0.2", "X-Forwarded-For", "X-Forwarded-For"},
		{"X-Forwarded-For", "10.0.0.3, 10.0.0.2", "", "X-Forwarded-For"},
		{"X-Forwarded-For", "unknown", "", "X-Forwarded-For"},
		{"X-Real-Ip", "2001:db8::1", "X-Real-Ip", "X-Real-Ip"},
		{"Cf-Connecting-Ip", "203.0.113.9", "Cf-Connecting-Ip", "Cf-Connecting-Ip"},
		{"X-Client-Ip", "203.0.113.9", "X-Client-Ip", "X-Client-Ip"},
		{"Forwarded", "for=203.0.113.9", "Forwarded", "Forwarded"},
		{"Forwarded", `proto=https; For="[2001:db8::1]:4711";by=10.0.0.9, for=10.0.0.2`, "Forwarded", "Forwarded"},
		{"Forwarded", "for=10.0.0.3", "", "Forwarded"},
		{"Forwarded", "for=_hidden", "", "Forwarded"},
		{"Forwarded", "by=203.0.113.9", "", "Forwarded"},
		{"User-Agent", "203.0.113.9", "", ""},
	} {
		h := map[string][]string{c.field: {c.value}}
		if got := ForwardedClient(h); got != c.client {
			t.Errorf("%s: %s: a client in %q, want %q", c.field, c.value, got, c.client)
		}
		if got := ForwardingField(h); got != c.want {
			t.Errorf("%s: the field %q, want %q", c.field, got, c.want)
		}
	}
}

func TestIsPrivateText(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.3": true, "10.0.0.3:80": true, "fd00::/64": true, "[::1]:9": true,
		"203.0.113.9": false, "2001:db8::/64": false, "ann": false, "v1.2": false, "": false,
	} {
		if got := IsPrivateText(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestWideRangesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8":          "",
		"2001::/16":           "",
		"10.0.0.1/32":         "",
		"::ffff:10.0.0.0/104": "",
		"0.0.0.0/0":           "is wider than /8, so all addresses could name any client",
		"::ffff:0.0.0.0/96":   "is wider than /8, so all addresses could name any client",
		"10.0.0.0/7":          "is wider than /8, so 1 of 128 addresses could name any client",
		"::/0":                "is wider than /16, so all addresses could name any client",
		"fc00::/7":            "is wider than /16, so 1 of 128 addresses could name any client",
	} {
		if got := Wide(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := Wide(netip.Prefix{}); got != "is not a valid range" {
		t.Errorf("the zero Prefix: %q", got)
	}
}

func TestKey(t *testing.T) {
	for _, c := range []struct {
		address string
		bits    int
		want    string
	}{
		{"192.0.2.1", 64, "192.0.2.1"},
		{"::ffff:192.0.2.1", 64, "192.0.2.1"},
		{"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3:4:5:6", 32, "2001:db8::/32"},
		{"2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6"},
		{"fe80::1%eth0", 64, "fe80::/64"},
		{"64:ff9b::192.0.2.1", 64, "192.0.2.1"},
		{"64:ff9b::192.0.2.1", 128, "192.0.2.1"},
		{"64:ff9b::1:c000:201", 64, "64:ff9b::/64"}, // beside the /96
		{"64:ff9b:1::192.0.2.1", 64, "64:ff9b:1::c000:201"},
		{"64:ff9b:1:c000:2:100::", 48, "64:ff9b:1:c000:2:100::"},
		{"64:ff9b:2::192.0.2.1", 64, "64:ff9b:2::/64"},
	} {
		if got := Key(netip.MustParseAddr(c.address), c.bits); got != c.want {
			t.Errorf("%s by %d bits: %q, want %q", c.address, c.bits, got, c.want)
		}
	}
}
