package weirhttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestExemptBehindAProxy: the client's address counts as it does in the key. An address that a
// client forges exempts nobody, and neither does that of the proxy.
func TestExemptBehindAProxy(t *testing.T) {
	client := ClientIP(TrustedProxies(netip.MustParsePrefix("10.0.0.0/8")))
	office := []netip.Prefix{
		netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("::ffff:198.51.100.7/128"),
		netip.MustParsePrefix("2001:db8:1::/48"),
		netip.MustParsePrefix("2001:db8:2:3::/64"),
	}
	h := Middleware(newLimiter(t, search), By{"ip": client}, Exempt(client, office...))(new(served))
	for _, c := range []struct {
		peer, forwarded string
		exempt          bool
	}{
		{"203.0.113.9:1", "", true},
		{"203.0.114.9:1", "", false},
		{"198.51.100.7:1", "", true},
		{"198.51.100.8:1", "", false},
		{"[2001:db8:1:9::1]:1", "", true},
		{"[2001:db8:2:3::1]:1", "", true},
		{"[2001:db8:2:4::1]:1", "", false},
		{"10.0.0.1:1", "203.0.113.9", true},
		{"10.0.0.1:1", "192.0.2.1, 203.0.113.9", true},
		{"10.0.0.1:1", "203.0.113.9, 192.0.2.1", false}, // the left one is the client's own text
		{"192.0.2.2:1", "203.0.113.9", false},           // no trusted proxy
		{"10.0.0.1:1", "2001:db8:1:9::1", true},
	} {
		r := get(h, from(c.peer), func(r *http.Request) {
			if c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", c.forwarded)
			}
		})
		if got := r.Header.Get("RateLimit-Policy") == ""; got != c.exempt {
			t.Errorf("%s, X-Forwarded-For %q: exempt %t, want %t", c.peer, c.forwarded, got, c.exempt)
		}
	}
}

// TestExemptOfOtherKeys: the policy may count by something else, and a request that is exempt
// needs no key. Several Exempt add up, and a client without an address is not exempt.
func TestExemptOfOtherKeys(t *testing.T) {
	client := ClientIP(TrustedProxies(netip.MustParsePrefix("10.0.0.0/8")))
	h := Middleware(newLimiter(t, search), By{"ip": Header("X-User")},
		Exempt(client, netip.MustParsePrefix("203.0.113.0/24")), Exempt(client), Exempt(client, netip.MustParsePrefix("192.0.2.7/32")))(new(served))
	for peer, want := range map[string]int{"203.0.113.9:1": 200, "192.0.2.7:1": 200, "192.0.2.8:1": 400} {
		if r := get(h, from(peer)); r.StatusCode != want {
			t.Errorf("%s without a key: status %d, want %d", peer, r.StatusCode, want)
		}
	}
	r := get(h, from("10.0.0.1:1"), with("X-User", "ann"), with("X-Forwarded-For", "unknown"))
	if r.StatusCode != 200 || r.Header.Get("RateLimit-Policy") == "" {
		t.Errorf("a client without an address: status %d, header %v; want it counted", r.StatusCode, r.Header)
	}
}

// TestExemptReportsFaults of the program: an exemption that never works is a mistake.
func TestExemptReportsFaults(t *testing.T) {
	var seen error
	onError := OnError(func(_ http.ResponseWriter, _ *http.Request, err error) { seen = err })
	h := Middleware(newLimiter(t, search), By{"ip": Header("X-User")}, Exempt(ClientIP(), netip.MustParsePrefix("127.0.0.0/8")), onError)(new(served))
	get(h, from("@"), with("X-User", "ann")) // a unix socket
	if !errors.Is(seen, ErrProgram) || !strings.Contains(seen.Error(), "Exempt") {
		t.Errorf("got %v, want ErrProgram that names Exempt", seen)
	}
	for want, f := range map[string]func(){
		"weirhttp: Exempt: the function of the client's address is nil; pass that of ClientIP": func() { Exempt(nil) },
		"weirhttp: Exempt: a range is the zero or an invalid netip.Prefix; make it with netip.MustParsePrefix": func() {
			Exempt(ClientIP(), netip.Prefix{})
		},
		"weirhttp: Exempt: 0.0.0.0/0 exempts every client; leave Middleware out, or name ranges": func() {
			Exempt(ClientIP(), netip.MustParsePrefix("0.0.0.0/0"))
		},
		"weirhttp: Exempt: 2001:db8::5/128 is a part of a /64, and a client has all addresses of its own; exempt 2001:db8::/64": func() {
			Exempt(ClientIP(), netip.MustParsePrefix("2001:db8::5/128"))
		},
	} {
		if got := assert.Recovered(f); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}
}

// TestExemptOfAWidePrefix: a client that is counted by a prefix is exempt with all of it only.
func TestExemptOfAWidePrefix(t *testing.T) {
	client := ClientIP(IPv6Prefix(48))
	for text, want := range map[string]bool{"2001:db8:1::/64": false, "2001:db8:1::/48": true, "2001:db8::/32": true} {
		h := Middleware(newLimiter(t, search), By{"ip": client}, Exempt(client, netip.MustParsePrefix(text)))(new(served))
		r := get(h, from("[2001:db8:1::1]:1"))
		if got := r.Header.Get("RateLimit-Policy") == ""; got != want {
			t.Errorf("%s: exempt %t, want %t", text, got, want)
		}
	}
}

// TestExemptOfAWrappedKeyError: such a client is not exempt, and its request no fault.
func TestExemptOfAWrappedKeyError(t *testing.T) {
	client := func(*http.Request) (string, error) {
		return "", fmt.Errorf("address: %w", &KeyError{Problem: "no address"})
	}
	h := Middleware(newLimiter(t, search), By{"ip": Header("X-User")}, Exempt(client))(new(served))
	if r := get(h, with("X-User", "ann")); r.StatusCode != 200 || r.Header.Get("RateLimit-Policy") == "" {
		t.Errorf("status %d, header %v; want it counted", r.StatusCode, r.Header)
	}
}
