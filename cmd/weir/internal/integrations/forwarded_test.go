//go:build linux

package integrations

import (
	"slices"
	"strings"
	"testing"
)

// The application gets the client's address as X-Forwarded-For, and nothing of a field that the
// client itself sent: with a key of either kind, for a preflight, and without weir.
func TestForwardedAddressIsThePeers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"header":  func(o *Options) { o.Allow = true },
		"address": func(o *Options) { o.Policy, o.Dimension, o.Header, o.Allow = "many", "ip", "", true },
	} {
		for _, p := range append(slices.Clone(proxies), envoyProxy) {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := newStand(t, p, func(o *Options) {
					change(o)
					o.OfPolicy = p.grpc
					if p.grpc && o.Header == "" {
						o.Policy, o.Dimension = "masked", "" // 5 per hour
					}
				})
				s.wantForwarded("without a field", "GET")
				s.wantForwarded("with one", "GET", "X-Forwarded-For", "192.0.2.1")
				s.wantForwarded("with two lines", "GET", "X-Forwarded-For", "192.0.2.1, 10.0.0.1",
					"X-Forwarded-For", "127.0.0.1")
				s.wantForwarded("a preflight", "OPTIONS", append(preflight[:len(preflight):len(preflight)],
					"X-Forwarded-For", "192.0.2.1")...)
				s.wantForwarded("with underscores", "GET", "X_Forwarded_For", "192.0.2.1",
					"x-forwarded_for", "192.0.2.1")
				s.killWeir()
				s.wantForwarded("without weir", "GET", "X-Forwarded-For", "192.0.2.1")
			})
		}
	}
}

// wantForwarded sends a request and checks the X-Forwarded-For that the application gets.
func (s *stand) wantForwarded(what, method string, fields ...string) {
	s.t.Helper()
	before := s.app.requests()
	s.want(what, s.do(method, "/", "", append([]string{"X-User", what}, fields...)...), 200)
	if s.app.requests() != before+1 {
		s.t.Fatalf("%s: the application was asked %d times", what, s.app.requests()-before)
	}
	var got []string
	for name, values := range s.app.asked(before).Header {
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-Forwarded-For") { // as in WSGI
			got = append(got, values...)
		}
	}
	if len(got) != 1 || got[0] != "127.0.0.1" {
		s.t.Errorf("%s: the application saw X-Forwarded-For %q, want 127.0.0.1", what, got)
	}
}

// TestProxyInFront: weir warns if the proxy of a snippet counts another proxy in front of it. Caddy
// replaces the field of a peer that it does not trust before it asks weir.
func TestProxyInFront(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		if p.name == "caddy" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, p, func(o *Options) { o.Policy, o.Dimension, o.Header = "many", "ip", "" })
			for range 2 {
				s.want("a request", s.get("/", "X-Forwarded-For", "8.8.8.8"), 200)
			}
			s.weir.Process.Kill()
			<-s.weir.Ended // all of its output is there
			if got := strings.Count(s.weir.Output(), "counts ip by a private address"); got != 1 {
				t.Errorf("%d warnings, want 1:\n%s", got, s.weir.Output())
			}
		})
	}
}

// TestLoneOriginIsCounted: OPTIONS without the method that it asks about is no preflight.
func TestLoneOriginIsCounted(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, p, func(o *Options) { o.Policy, o.Dimension, o.Header = "once", "ip", "" })
			s.want("the first request", s.get("/"), 200)
			s.want("OPTIONS with Origin", s.do("OPTIONS", "/", "", "Origin", "https://a.example PUT"), 429)
		})
	}
}
