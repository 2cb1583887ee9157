package clientaddr

import (
	"net/netip"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestCanonical: all written forms of the addresses of a client have one form, which is its
// own form. A value that may be several clients has none.
func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		value string
		bits  int
		want  string // "" = no address
	}{
		{"192.0.2.7", 64, "192.0.2.7"},
		{"::ffff:192.0.2.7", 64, "192.0.2.7"},
		{"::FFFF:c000:207", 64, "192.0.2.7"},
		{"64:ff9b::192.0.2.7", 64, "192.0.2.7"},
		{"192.0.2.7:443", 64, "192.0.2.7"},
		{"192.0.2.7/32", 64, "192.0.2.7"},
		{"::ffff:192.0.2.7/128", 64, "192.0.2.7"},
		{"64:ff9b::c000:207/128", 64, "192.0.2.7"},
		{"2001:db8:1:2::3", 64, "2001:db8:1:2::/64"},
		{"2001:DB8:1:2:0:0:0:FFFF", 64, "2001:db8:1:2::/64"},
		{"[2001:db8:1:2::3]:443", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2::3%eth0", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2::/64", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2::/64", 56, "2001:db8:1::/56"},
		{"2001:db8:1:2::3/128", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2::3", 128, "2001:db8:1:2::3"},
		{"64:ff9b:1::192.0.2.7", 64, "64:ff9b:1::c000:207"},

		{"2001:db8:1:2::/64", 128, ""},
		{"2001:db8::/32", 64, ""},
		{"10.0.0.0/8", 64, ""},
		{"64:ff9b::/96", 64, ""},
		{"64:ff9b:1::/64", 64, ""},
		{"", 64, ""},
		{"unknown", 64, ""},
		{"192.0.2", 64, ""},
		{"192.0.2.07", 64, ""},
		{" 192.0.2.7", 64, ""},
		{"192.0.2.7/33", 64, ""},
		{"192.0.2.7, 10.0.0.1", 64, ""},
	} {
		got, ok := Canonical(c.value, c.bits)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%q by %d bits: %q, %v; want %q", c.value, c.bits, got, ok, c.want)
		}
		if again, ok := Canonical(got, c.bits); got != "" && (again != got || !ok) {
			t.Errorf("%q by %d bits: %q, which reads back as %q, %v", c.value, c.bits, got, again, ok)
		}
	}
}

func TestCanonicalAllocatesForAnotherForm(t *testing.T) {
	if race.Enabled {
		return // the race detector allocates
	}
	for value, want := range map[string]float64{"192.0.2.7": 0, "2001:db8::/64": 0, "2001:db8::1": 1, "::ffff:192.0.2.7": 1, "unknown host": 1} {
		if got := testing.AllocsPerRun(100, func() { Canonical(value, Bits) }); got > want {
			t.Errorf("%q: %v allocations, want at most %v", value, got, want)
		}
	}
}

func TestParseRange(t *testing.T) {
	for _, c := range []struct {
		text string
		bits int
		want string
		free int
	}{
		{"10.0.0.0/8", 64, "10.0.0.0/8", 24},
		{"::ffff:10.0.0.0/104", 64, "10.0.0.0/8", 24},
		{"64:ff9b::10.0.0.0/104", 64, "10.0.0.0/8", 24},
		{"10.0.0.5", 64, "10.0.0.5", 0},
		{"10.0.0.5/32", 64, "10.0.0.5", 0},
		{"2001:DB8::/32", 64, "2001:db8::/32", 96},
		{"2001:db8::/64", 64, "2001:db8::/64", 0},
		{"2001:db8::7", 64, "2001:db8::/64", 0},
		{"2001:db8::/64", 128, "2001:db8::/64", 64},
		{"2001:db8::7/128", 128, "2001:db8::7", 0},
		{"64:ff9b:1::/48", 64, "64:ff9b:1::/48", 80},
		{"64:ff9b:1::7/128", 64, "64:ff9b:1::7", 0},
		{"64:ff9b::/32", 64, "64:ff9b::/32", 96},
		{"0.0.0.0/0", 64, "0.0.0.0/0", 32},
		{"::/0", 64, "::/0", 128},

		{"", 64, `is not an address; write one such as 192.0.2.7 or 2001:db8::1, or a network such as 10.0.0.0/8`, 0},
		{"office", 64, `is not an address; write one such as 192.0.2.7 or 2001:db8::1, or a network such as 10.0.0.0/8`, 0},
		{"10.0.0.0/33", 64, `is not a network; write one such as 10.0.0.0/8 or 2001:db8::/32`, 0},
		{"10.0.0.5/8", 64, `has bits beyond its prefix; write 10.0.0.0/8 for the network, or 10.0.0.5 for the address`, 0},
		{"2001:db8::/72", 64, `is a part of 2001:db8::/64, which is counted as one client; write 2001:db8::/64, or count by longer prefixes: address/72`, 0},
		{"2001:db8::7/128", 56, `is a part of 2001:db8::/56, which is counted as one client; write 2001:db8::/56, or count by longer prefixes: address/128`, 0},
		{"64:ff9b::/80", 64, `is a part of 64:ff9b::/64, which is counted as one client; write 64:ff9b::/64, or count by longer prefixes: address/80`, 0},
	} {
		r, err := ParseRange(c.text, c.bits)
		got, free := r.Text(), r.Free()
		if err != nil {
			got, free = err.Error(), 0
		}
		if got != c.want || free != c.free {
			t.Errorf("%q by %d bits: %s, %d bits free; want %s, %d", c.text, c.bits, got, free, c.want, c.free)
		}
	}
}

func TestKnownBits(t *testing.T) {
	for _, c := range []struct{ form, want string }{
		{"10.1.2.3", "10.1.2.3/32"},
		{"2001:db8:1:2::/64", "2001:db8:1:2::/64"},
		{"64:ff9b:1::7", "64:ff9b:1::7/128"},
		{Hidden(netip.MustParsePrefix("10.0.0.0/8"), "x_-y"), "10.0.0.0/8"},
		{Hidden(netip.MustParsePrefix("2001:db8::/32"), "x"), "2001:db8::/32"},
		{"unknown", "invalid Prefix"},
		{"", "invalid Prefix"},
		{"unknown/8", "invalid Prefix"},
	} {
		if got := Known(c.form).String(); got != c.want {
			t.Errorf("%q: %s, want %s", c.form, got, c.want)
		}
	}
}

// FuzzCanonical: a counted form is its own form, has the address, and names one client.
func FuzzCanonical(f *testing.F) {
	for _, value := range []string{"192.0.2.7", "::ffff:c000:207", "64:ff9b::1", "[2001:db8::1%eth0]:443", "2001:db8::/64", "10.0.0.0/8", "64:ff9b:1::/48", "x"} {
		f.Add(value, uint8(64))
		f.Add(value, uint8(128))
	}
	f.Fuzz(func(t *testing.T, value string, n uint8) {
		bits := MinBits + int(n)%(MaxBits-MinBits+1)
		form, ok := Canonical(value, bits)
		r, err := ParseRange(value, bits)
		if !ok {
			if err == nil && r.One {
				t.Errorf("%q by %d bits: no address, but the range %s of one client", value, bits, r.Text())
			}
			return
		}
		if again, ok := Canonical(form, bits); again != form || !ok {
			t.Errorf("%q by %d bits: %q, which reads back as %q, %v", value, bits, form, again, ok)
		}
		if err == nil && r.One && r.Text() != form {
			t.Errorf("%q by %d bits: %q, and an override for it matches %q", value, bits, form, r.Text())
		}
		if a, ok := ParseNode(value); ok && Key(a, bits) != form {
			t.Errorf("%q by %d bits: %q, and gates count %q", value, bits, form, Key(a, bits))
		}
	})
}
