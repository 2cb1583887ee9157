package server

import (
	"net/http"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// called makes a request with this Host.
func called(host string) func(*http.Request) {
	return func(r *http.Request) { r.Host = host }
}

// open are the calls that a page in a browser on the same machine could make.
var open = []struct{ method, target, body string }{
	{"GET", "/v1/top", ""}, {"GET", "/v1/policies", ""}, {"GET", "/metrics", ""},
	{"POST", "/v1/reload", ""}, {"DELETE", "/v1/keys/search?ip=1", ""},
	{"POST", "/v1/check", searchBody}, {"POST", "/v1/peek", searchBody}, {"GET", "/nothing", ""},
}

// TestOpenListenersRejectForeignHosts: a site that resolves its name to 127.0.0.1 is
// rejected by a listener without authentication.
func TestOpenListenersRejectForeignHosts(t *testing.T) {
	names, err := listen.ParseNames("weir.example.com")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newServer(t, nil, func(c *Config) { c.Hosts = names })
	for _, c := range open {
		evil := ask(s, c.method, c.target, c.body, called("evil.example:7070"), func(r *http.Request) {
			r.Header.Set("Origin", "http://evil.example:7070") // the same site for the browser
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		})
		wantProblem(t, c.target, evil, 403, "Host field names evil.example:7070,", "--host NAME")
	}
	play(t, s, `POST /v1/peek {"policy":"search","key":{"ip":"1"}} => 200 …"remaining":2,…`)
	for _, c := range open {
		for _, good := range []string{"127.0.0.1:7070", "localhost", "[::1]:7070", "192.0.2.1", "Weir.Example.com:80", ""} {
			if r := ask(s, c.method, c.target, c.body, called(good)); r.status == 403 {
				t.Errorf("%s of %q: %s", c.target, good, r.body)
			}
		}
	}
	// Probes show strangers only whether the server is well. Proxies call gates with any
	// Host.
	if r := ask(s, "GET", "/livez", "", called("evil.example")); r.status != 200 {
		t.Errorf("/livez: status %d", r.status)
	}
	if r := ask(s, "GET", "/readyz", "", called("evil.example")); r.body != "{\"ready\":true}\n" {
		t.Errorf("/readyz shows a stranger's page %s", r.body)
	}
	if r := ask(s, "GET", "/gate/search?ip=2", "", called("shop.example")); r.status != 204 {
		t.Errorf("a gate with the Host of the proxy's client: status %d, want 204", r.status)
	}
}

// TestAuthenticatedListenersAcceptAnyHost: a listener that requires authentication, a
// unix socket, and a listener that is open on purpose accept any Host.
func TestAuthenticatedListenersAcceptAnyHost(t *testing.T) {
	token := func(c *Config) { c.Auth.Token = secret(t, tokenWord) }
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenWord) }
	for _, c := range []struct {
		name   string
		change func(*Config)
		as     func(*http.Request)
		host   string
		status int
	}{
		{"a token", token, bearer, "weir.default.svc", 200},
		{"a unix socket", func(c *Config) { c.Listen = "unix:/weir.sock" }, bearer, "evil.example", 200},
		{"everywhere", func(c *Config) { c.Listen, c.Insecure = "0.0.0.0:0", true }, bearer, "weir", 200},
		{"everywhere, with names", func(c *Config) {
			c.Listen, c.Insecure = "0.0.0.0:0", true
			c.Hosts, _ = listen.ParseNames("weir")
		}, bearer, "evil.example", 403},
	} {
		s, _ := newServer(t, nil, c.change)
		if r := ask(s, "POST", "/v1/check", searchBody, called(c.host), c.as); r.status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, r.status, c.status, r.body)
		}
	}
}

// TestAdminListenerRejectsForeignHosts: the admin listener on loopback needs no token, so
// it checks the Host even if decisions need a token.
func TestAdminListenerRejectsForeignHosts(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.AdminListen = "127.0.0.1:0"
		c.Auth.Token = secret(t, tokenWord)
	})
	for _, host := range []string{"evil.example", "localhost"} {
		w := ask(&Server{main: s.admin}, "GET", "/v1/top", "", called(host))
		if (w.status == 403) != (host == "evil.example") {
			t.Errorf("%s: status %d", host, w.status)
		}
	}
}
