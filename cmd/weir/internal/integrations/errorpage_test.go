//go:build linux

package integrations

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// ownErrorPages adds limited locations with an error_page of their own to nginx's snippet. The
// page of the first is limited as well, those of the others are not.
var ownErrorPages = replaced("    location / {\n", `
    location /limited/ {
        auth_request /_weir;
        satisfy all;
        error_page 403 /page.html;
        proxy_pass http://app;
    }
    location /site/ {
        auth_request /_weir;
        satisfy all;
        error_page 401 403 404 /404.html;
        proxy_pass http://app;
    }
    location = /404.html {
        internal;
        root html;
    }
    location /to-application/ {
        auth_request /_weir;
        satisfy all;
        error_page 403 = @other;
        proxy_pass http://app;
    }
    location @other {
        auth_request /_weir;
        satisfy all;
        proxy_pass http://app;
    }
    location /repeated/ {
        auth_request /_weir;
        satisfy all;
        error_page 404 /404.html;
        error_page 403 = @weir_denied;
        proxy_pass http://app;
    }
    location / {
`)

// errorPages are paths of ownErrorPages, with the answer to a request that does not pass.
var errorPages = []struct {
	path, body  string
	denied      int // status of a denial
	undecidable int // status while weir is down
}{
	{"/limited/", "Forbidden", 403, 403},
	{"/site/", "no such page", 403, 403},
	{"/to-application/", "Forbidden", 403, 403},
	{"/repeated/", `"status":`, 429, 503},
}

// An error_page of a location redirects a denied request. Weir is called once, no location
// lets the request pass, and the client gets each field once.
func TestDenialIsReused(t *testing.T) {
	t.Parallel()
	s := newErrorPages(t)
	s.want("the first", s.get("/status/200"), 200)
	for _, c := range errorPages {
		asked, decided := s.app.requests(), s.denials()
		r := s.get(c.path)
		s.want(c.path, r, c.denied)
		s.wantOnce(c.path, r)
		if !strings.Contains(r.body, c.body) || s.app.requests() != asked {
			t.Errorf("%s: %q, and the application was asked %d times",
				c.path, r.body, s.app.requests()-asked)
		}
		if n := s.denials() - decided; n != 1 {
			t.Errorf("%s: weir denied %d requests, want 1", c.path, n)
		}
	}
}

// While weir is down nginx connects to it once for each request.
func TestFailureIsReused(t *testing.T) {
	t.Parallel()
	s := newErrorPages(t)
	s.killWeir()
	var calls atomic.Int32
	l, err := net.Listen("tcp", s.options.Weir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			c.Close()
		}
	}()
	for _, c := range errorPages {
		before := calls.Load()
		r := s.get(c.path)
		s.want(c.path, r, c.undecidable)
		n := calls.Load() - before
		if n != 1 || !strings.Contains(r.body, c.body) || s.app.requests() != 0 {
			t.Errorf("%s: %d connections to weir, want 1; %q, and the application was asked %d times",
				c.path, n, r.body, s.app.requests())
		}
	}
}

// newErrorPages starts nginx, which denies while weir is down, with ownErrorPages.
func newErrorPages(t *testing.T) *stand {
	t.Helper()
	p := proxies[0]
	p.edit = ownErrorPages
	start := p.start
	p.start = func(s *stand) { s.writeSite(); start(s) }
	return newStand(t, p, func(o *Options) { o.Policy, o.Dimension, o.Header = "once", "ip", "" })
}

// wantOnce checks that an answer has the fields of one denial of a limit of 1 per hour.
func (s *stand) wantOnce(what string, r reply) {
	s.t.Helper()
	for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
		values := r.header.Values(name)
		if len(values) != 1 || strings.Count(values[0], "once") != 1 {
			s.t.Errorf("%s: %s %q, want one value", what, name, values)
		}
	}
	wait, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || wait < 1 || wait > 3600 {
		s.t.Errorf("%s: Retry-After %q, want 1 to 3600", what, r.header.Values("Retry-After"))
	}
}

// denials returns the number of requests that weir has denied.
func (s *stand) denials() int {
	s.t.Helper()
	res, err := http.Get("http://" + s.options.Weir + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	text := string(body)
	const name = `weir_decisions_total{outcome="denied",policy="once",protocol="gate"} `
	_, value, found := strings.Cut(text, "\n"+name)
	if !found {
		return 0
	}
	value, _, _ = strings.Cut(value, "\n")
	n, err := strconv.Atoi(value)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}
