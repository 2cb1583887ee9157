package weirhttp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// The proxies trusted in these tests.
var proxies = TrustedProxies(
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("::ffff:172.16.0.0/108"),
	netip.MustParsePrefix("fd00:1::/32"),
)

// A form is one request and the address that must be counted; "" = the request must be
// rejected.
type form struct {
	peer  string
	lines []string
	want  string
}

const proxy = "10.0.0.1:9999"

var untrusting = []form{
	{"192.0.2.1:1", nil, "192.0.2.1"},
	{"192.0.2.1", nil, "192.0.2.1"},
	{"[2001:db8:1:2:3:4:5:6]:1", nil, "2001:db8:1:2::/64"},
	{"2001:db8:1:2:3:4:5:6", nil, "2001:db8:1:2::/64"},
	{"[2001:DB8:1:2::FFFF]:1", nil, "2001:db8:1:2::/64"},
	{"[::ffff:192.0.2.1]:1", nil, "192.0.2.1"},
	{"[::ffff:c000:201]:1", nil, "192.0.2.1"},
	{"[fe80::1%eth0]:1", nil, "fe80::/64"},
	{"[::1]:1", nil, "::/64"},
	{"[64:ff9b::c000:201]:1", nil, "192.0.2.1"},
	{"[64:ff9b:1:fffe::c000:201%eth0]:1", nil, "64:ff9b:1:fffe::c000:201"},
	{"192.0.2.1:1", []string{"203.0.113.9"}, "192.0.2.1"},
	{proxy, []string{"203.0.113.9"}, "10.0.0.1"},
}

var listed = []form{
	{proxy, nil, "10.0.0.1"},
	{proxy, []string{"203.0.113.9"}, "203.0.113.9"},
	{"[::ffff:10.0.0.1]:9", []string{"203.0.113.9"}, "203.0.113.9"},
	{"172.20.0.1:9", []string{"203.0.113.9"}, "203.0.113.9"},
	{"[fd00:1::5]:9", []string{"203.0.113.9"}, "203.0.113.9"},
	{"[fd00:1::5%eth0]:9", []string{"203.0.113.9"}, "203.0.113.9"},
	{"[fd00:2::5]:9", []string{"203.0.113.9"}, "fd00:2::/64"},
	{"11.0.0.1:9", []string{"203.0.113.9"}, "11.0.0.1"},
	{proxy, []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9"},
	{proxy, []string{"198.51.100.1", "203.0.113.9"}, "203.0.113.9"},
	{proxy, []string{"203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
	{proxy, []string{"203.0.113.9", "10.0.0.2", "172.16.5.5"}, "203.0.113.9"},
	{proxy, []string{"10.0.0.99, 203.0.113.9"}, "203.0.113.9"},
	{proxy, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
	{proxy, []string{"\t203.0.113.9 "}, "203.0.113.9"},
	{proxy, []string{"203.0.113.9:443"}, "203.0.113.9"},
	{proxy, []string{"203.0.113.9:"}, ""},
	{proxy, []string{"203.0.113.9:x"}, ""},
	{proxy, []string{"2001:db8:1:2::3"}, "2001:db8:1:2::/64"},
	{proxy, []string{"[2001:db8:1:2::3]"}, "2001:db8:1:2::/64"},
	{proxy, []string{"[2001:db8:1:2::3]:443"}, "2001:db8:1:2::/64"},
	{proxy, []string{"64:ff9b::203.0.113.9"}, "203.0.113.9"},
	{proxy, []string{"198.51.100.1, 64:ff9b::10.0.0.2"}, "10.0.0.2"}, // a translated client is no trusted proxy
	{proxy, []string{"2001:db8:1:2::3%eth0"}, "2001:db8:1:2::/64"},
	{proxy, []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
	{proxy, []string{"[::ffff:203.0.113.9]:443"}, "203.0.113.9"},
	{proxy, []string{"203.0.113.9, ::ffff:10.0.0.2"}, "203.0.113.9"},
	{proxy, []string{"203.0.113.9, fd00:1::5%eth0"}, "203.0.113.9"},
	{proxy, []string{"garbage, 203.0.113.9"}, "203.0.113.9"},
	{proxy, []string{"\", 203.0.113.9"}, "203.0.113.9"},
	{proxy, []string{",,,, 203.0.113.9"}, "203.0.113.9"},
	{proxy, []string{""}, ""},
	{proxy, []string{"203.0.113.9,"}, ""},
	{proxy, []string{"203.0.113.9", ""}, ""},
	{proxy, []string{"203.0.113.9, , 10.0.0.2"}, ""},
	{proxy, []string{"unknown"}, ""},
	{proxy, []string{"203.0.113.9, unknown, 10.0.0.2"}, ""},
	{proxy, []string{"unix:"}, ""},
	{proxy, []string{"203.0.113"}, ""},
	{proxy, []string{"203.0.113.09"}, ""},
	{proxy, []string{"0xcb.0.113.9"}, ""},
	{proxy, []string{"203.0.113.9/32"}, ""},
	{proxy, []string{"203.0.113.9 10.0.0.2"}, ""},
	{proxy, []string{"203.0.113.9;10.0.0.2"}, ""},
	{proxy, []string{"203.0.113.9\x00"}, ""},
	{proxy, []string{"client.example.com"}, ""},
	{proxy, []string{"::ffff:203.0.113.999"}, ""},
	{proxy, []string{"\"203.0.113.9\""}, ""},
}

// noAddress are peers that are no IP addresses, such as those of unix sockets.
var noAddress = []string{
	"", "@", "localhost:80", "192.0.2.1:99999", "[192.0.2.1]:80", "[2001:db8::1", "2001:db8::1]:80", "[2001:db8::1]80",
}

// TestPeersWithoutAnAddressAre500: no client can mend it, so the log has the next step.
func TestPeersWithoutAnAddressAre500(t *testing.T) {
	for _, peer := range noAddress {
		var out bytes.Buffer
		n := new(served)
		log := ErrorLog(slog.New(slog.NewTextHandler(&out, nil)))
		h := Middleware(newLimiter(t, search), By{"ip": ClientIP(proxies)}, log)(n)
		r := get(h, with("X-Forwarded-For", "203.0.113.9"), func(r *http.Request) { r.RemoteAddr = peer })
		text := out.String()
		if r.StatusCode != 500 || *n != 0 || strings.Count(text, "\n") != 1 ||
			!strings.Contains(text, "unix socket") || !strings.Contains(text, "weirhttp.TrustedProxies") {
			t.Errorf("peer %q: status %d, %d served, logged %q; want 500 and one line with the next step", peer, r.StatusCode, *n, text)
		}
	}
}

// TestNextStepOfUnixSockets does what the log line of a unix socket says, over a real one.
func TestNextStepOfUnixSockets(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "app.sock"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := ClientIP(TrustedProxies(netip.MustParsePrefix("127.0.0.1/32")))
	limited := Middleware(newLimiter(t, search), By{"ip": trusted})(new(served))
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("In-Front") != "" {
			r.RemoteAddr = "127.0.0.1"
		}
		limited.ServeHTTP(w, r)
	}), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", l.Addr().String()) }
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	ask := func(inFront, from string) int {
		r, err := http.NewRequest("GET", "http://app/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("In-Front", inFront)
		r.Header.Set("X-Forwarded-For", from)
		w, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		return w.StatusCode
	}
	if got := ask("", "203.0.113.9"); got != 500 {
		t.Errorf("without the handler in front: %d, want 500", got)
	}
	for i, want := range []int{200, 200, 429} {
		if got := ask("yes", "203.0.113.9"); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	if got := ask("yes", "203.0.113.10"); got != 200 {
		t.Errorf("another client: %d, want 200", got)
	}
}

func TestClientIPBehindProxies(t *testing.T) {
	for _, table := range []struct {
		name  string
		find  ValueFunc
		forms []form
	}{
		{"no proxies", ClientIP(), untrusting},
		{"proxies", ClientIP(proxies), listed},
	} {
		for _, f := range table.forms {
			r := &http.Request{RemoteAddr: f.peer, Header: http.Header{}}
			if f.lines != nil {
				r.Header["X-Forwarded-For"] = f.lines
			}
			got, err := table.find(r)
			var k *KeyError
			if got != f.want || (f.want == "") != errors.As(err, &k) {
				t.Errorf("%s: peer %q, header %q: got %q, error %v; want %q", table.name, f.peer, f.lines, got, err, f.want)
			}
		}
	}
}

// TestClientIPIgnoresForwarded: a client can forge a header that the proxies do not write.
func TestClientIPIgnoresForwarded(t *testing.T) {
	r := &http.Request{RemoteAddr: proxy, Header: http.Header{"Forwarded": {"for=198.51.100.1"}, "X-Forwarded-For": {"203.0.113.9"}}}
	if got, err := ClientIP(proxies)(r); got != "203.0.113.9" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestIPv6Prefix(t *testing.T) {
	for peer, want := range map[string]string{"[2001:db8:1:2ff::1]:1": "2001:db8:1:200::/56", "192.0.2.1:1": "192.0.2.1"} {
		if got, err := ClientIP(IPv6Prefix(56))(&http.Request{RemoteAddr: peer}); got != want {
			t.Errorf("%s by /56: got %q, %v; want %q", peer, got, err, want)
		}
	}
}

// TestForwardingByAPeerThatIsNotTrustedWarnsOnce: without a word, all clients behind a proxy
// would share one history.
func TestForwardingByAPeerThatIsNotTrustedWarnsOnce(t *testing.T) {
	for _, c := range []struct {
		name, peer, field string
		opts              []IPOption
		warns             string // "" = no warning
	}{
		{"no field", "192.0.2.1:1", "User-Agent", nil, ""},
		{"a peer on the Internet", "192.0.2.1:1", "X-Forwarded-For", nil, "comes from a peer that is not a trusted proxy"},
		{"a private peer", proxy, "X-Forwarded-For", nil, "comes from a private address that is not a trusted proxy"},
		{"a loopback peer", "[::1]:1", "Forwarded", nil, "comes from a private address that is not a trusted proxy"},
		{"a mapped peer", "[::ffff:127.0.0.1]:1", "X-Real-IP", nil, "a request with X-Real-Ip comes from a private address"},
		{"a CDN", "192.0.2.1:1", "CF-Connecting-IP", nil, "a request with Cf-Connecting-Ip comes from a peer"},
		{"a trusted proxy", proxy, "X-Forwarded-For", []IPOption{proxies}, ""},
		{"a client that forges the field", "192.0.2.1:1", "X-Forwarded-For", []IPOption{proxies}, ""},
		{"a proxy that was forgotten", "192.168.0.1:1", "X-Forwarded-For", []IPOption{proxies}, "comes from a private address that is not a trusted proxy"},
	} {
		for _, by := range []string{"Logger", "the default logger"} {
			var out bytes.Buffer
			log, opts := slog.New(slog.NewTextHandler(&out, nil)), c.opts
			if by == "Logger" {
				opts = append([]IPOption{IPErrorLog(log)}, opts...)
			} else {
				before := slog.Default()
				slog.SetDefault(log)
				t.Cleanup(func() { slog.SetDefault(before) })
			}
			find := ClientIP(opts...)
			for range 3 {
				r := &http.Request{RemoteAddr: c.peer, Header: http.Header{}}
				r.Header.Set(c.field, "203.0.113.9")
				if _, err := find(r); err != nil {
					t.Fatal(err)
				}
			}
			want := 1
			if c.warns == "" {
				want = 0
			}
			text := out.String()
			if n := strings.Count(text, "\n"); n != want || !strings.Contains(text, c.warns) || strings.Contains(text, "203.0.113.9") {
				t.Errorf("%s, %s: logged %q; want %d lines with %q and without the client", c.name, by, text, want, c.warns)
			}
			if strings.Contains(text, "field=") {
				t.Errorf("%s: names the field twice: %s", c.name, text)
			}
			if want == 1 && !strings.Contains(text, "weirhttp.TrustedProxies") {
				t.Errorf("%s: no next step in %s", c.name, text)
			}
		}
	}
}

// TestTrustedProxiesThatHideTheirClientsWarnOnce: without a word, all clients behind a proxy
// would share one history.
func TestTrustedProxiesThatHideTheirClientsWarnOnce(t *testing.T) {
	const hop, nothing = "leads to a private address", "sent no X-Forwarded-For"
	local := TrustedProxies(netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("198.51.100.0/24"))
	for _, c := range []struct{ name, field, value, counts, warns, next string }{
		{"a proxy further left", "X-Forwarded-For", "203.0.113.9, 10.0.0.9", "10.0.0.9", hop, "add it to weirhttp.TrustedProxies"},
		{"a loopback proxy", "X-Forwarded-For", "203.0.113.9, ::1", "::/64", hop, "add it to weirhttp.TrustedProxies"},
		{"two of them", "X-Forwarded-For", "203.0.113.9, 10.0.0.8, 10.0.0.9, 198.51.100.7", "10.0.0.9", hop, "add it to weirhttp.TrustedProxies"},
		{"a private client", "X-Forwarded-For", "10.0.0.9", "10.0.0.9", "", ""},
		{"two private addresses", "X-Forwarded-For", "10.0.0.8, 10.0.0.9", "10.0.0.9", "", ""},
		{"text of the client", "X-Forwarded-For", "forged, 10.0.0.9", "10.0.0.9", "", ""},
		{"a public client", "X-Forwarded-For", "192.0.2.1, 203.0.113.9", "203.0.113.9", "", ""},
		{"another field", "X-Real-Ip", "203.0.113.9", "127.0.0.1", nothing + " (X-Real-Ip is not read)", "let it send the field"},
		{"the field of the RFC", "Forwarded", "for=203.0.113.9", "127.0.0.1", nothing + " (Forwarded is not read)", "let it send the field"},
		{"no field", "User-Agent", "x", "127.0.0.1", nothing + ", so", "let it send the field"},
	} {
		var out bytes.Buffer
		find := ClientIP(local, IPErrorLog(slog.New(slog.NewTextHandler(&out, nil))))
		for range 3 {
			got, err := find(&http.Request{RemoteAddr: "127.0.0.1:9", Header: http.Header{c.field: {c.value}}})
			if got != c.counts || err != nil {
				t.Errorf("%s: counted as %q, %v; want %q", c.name, got, err, c.counts)
			}
		}
		text, want := out.String(), 1
		if c.warns == "" {
			want = 0
		}
		if strings.Count(text, "\n") != want || !strings.Contains(text, c.warns) || !strings.Contains(text, c.next) ||
			strings.Contains(text, "203.0.113.9") {
			t.Errorf("%s: logged %q; want %d lines with %q and the next step, without the client", c.name, text, want, c.warns)
		}
	}
}

// TestEachWarningOfClientIPHasItsTurn: a health check by a proxy does not hide the graver ones.
func TestEachWarningOfClientIPHasItsTurn(t *testing.T) {
	var out bytes.Buffer
	find := ClientIP(TrustedProxies(netip.MustParsePrefix("127.0.0.1/32")), IPErrorLog(slog.New(slog.NewTextHandler(&out, nil))))
	for _, peer := range []string{"127.0.0.1:9", "10.0.0.1:9"} {
		for _, h := range []http.Header{{}, {"X-Forwarded-For": {"203.0.113.9, 10.0.0.9"}}} {
			find(&http.Request{RemoteAddr: peer, Header: h})
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d lines, want 3: %s", n, &out)
	}
}

// TestWideProxiesNeedAWord: each address of a range can name any client.
func TestWideProxiesNeedAWord(t *testing.T) {
	for text, want := range map[string]string{
		"0.0.0.0/0":  "weirhttp: TrustedProxies: 0.0.0.0/0 is wider than /8, so all addresses could name any client; name your proxies, or add WideProxies() if this is meant",
		"10.0.0.0/7": "weirhttp: TrustedProxies: 10.0.0.0/7 is wider than /8, so 1 of 128 addresses could name any client; name your proxies, or add WideProxies() if this is meant",
		"2000::/15":  "weirhttp: TrustedProxies: 2000::/15 is wider than /16, so 1 of 32768 addresses could name any client; name your proxies, or add WideProxies() if this is meant",
	} {
		wide := TrustedProxies(netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix(text))
		if got := assert.Recovered(func() { ClientIP(wide) }); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
		r := &http.Request{RemoteAddr: proxy, Header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}
		if got, err := ClientIP(wide, WideProxies())(r); got != "203.0.113.9" || err != nil {
			t.Errorf("%s with the word: %q, %v", text, got, err)
		}
	}
	if got := assert.Recovered(func() { ClientIP(TrustedProxies(netip.Prefix{})) }); got != "weirhttp: TrustedProxies: invalid Prefix is not a valid range; name your proxies, or add WideProxies() if this is meant" {
		t.Errorf("the zero Prefix: panic %v", got)
	}
}

func BenchmarkClientIP(b *testing.B) {
	for name, peer := range map[string]string{"public": "192.0.2.1:80", "private": "10.0.0.1:80"} {
		b.Run(name, func(b *testing.B) {
			find := ClientIP()
			r := &http.Request{RemoteAddr: peer, Header: http.Header{"User-Agent": {"x"}, "Accept": {"*/*"}, "Host": {"example.com"}, "Cookie": {"a=b"}}}
			b.ReportAllocs()
			for b.Loop() {
				find(r)
			}
		})
	}
}

// FuzzCanonical: the counted form of an address, parsed again, is the same.
func FuzzCanonical(f *testing.F) {
	for _, forms := range [][]form{untrusting, listed} {
		for _, c := range forms {
			f.Add(c.peer)
			f.Add(strings.Join(c.lines, ","))
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, ok := clientaddr.ParseNode(s)
		if !ok {
			return
		}
		once := clientaddr.Key(a, clientaddr.Bits)
		if p, err := netip.ParsePrefix(once); err == nil {
			if p.Bits() != clientaddr.Bits || p != p.Masked() || !p.Contains(a) {
				t.Errorf("%q: counted as %q, want the /64 of %v", s, once, a)
			}
			return
		}
		if again, ok := clientaddr.ParseNode(once); !ok || clientaddr.Key(again, clientaddr.Bits) != once {
			t.Errorf("%q: counted as %q, which reads back as %q", s, once, clientaddr.Key(again, clientaddr.Bits))
		}
	})
}

// FuzzSpoof: the address that the trusted proxy wrote on the right counts, for any text of
// the client on the left.
func FuzzSpoof(f *testing.F) {
	for _, c := range listed {
		f.Add(strings.Join(c.lines, ","))
	}
	find := ClientIP(proxies)
	f.Fuzz(func(t *testing.T, left string) {
		const client = "203.0.113.9"
		r := &http.Request{RemoteAddr: proxy, Header: http.Header{"X-Forwarded-For": {left, client}}}
		if got, err := find(r); got != client {
			t.Errorf("X-Forwarded-For %q: got %q, %v; want %s", r.Header["X-Forwarded-For"], got, err, client)
		}
	})
}
