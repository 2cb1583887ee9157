package server

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

func TestGateDeniesAboveTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		play(t, s, `
			GET /gate/search?ip=192.0.2.1 a body => 204
			  RateLimit: "search";r=1;t=60
			  RateLimit-Policy: "search";q=2;w=60
			  Retry-After:
			  Cache-Control: no-store
			PROPFIND /gate/search?ip=192.0.2.1 a body => 204
			  RateLimit: "search";r=0;t=60
			sleep 8.000001s
		`)
		for query, status := range map[string]int{"": 429, "&deny=429": 429, "&deny=403": 403} {
			r := ask(s, "GET", "/gate/search?ip=192.0.2.1"+query, "")
			p := wantProblem(t, "third"+query, r, status, "2 of 2 used in the last minute for ip=192.0.2.1; room again in 52s")
			if r.header.Get("Retry-After") != "52" || r.header["RateLimit"][0] != `"search";r=0;t=52` || p.RetryMS != 52_000 ||
				len(p.Violated) != 1 || p.Violated[0] != "search" || p.Type == "about:blank" {
				t.Errorf("third%s: %v, %+v", query, r.header, p)
			}
		}
		play(t, s, `
			GET /gate/search?ip=192.0.2.2& => 204
			sleep 51.999998s
			GET /gate/search?ip=192.0.2.1 => 429 …
			  Retry-After: 1
			sleep 1us
			GET /gate/search?ip=192.0.2.1 => 204
		`)
	})
}

// TestLogOfALongValue has its length alone.
func TestLogOfALongValue(t *testing.T) {
	s, logged := newServer(t, nil)
	ask(s, "GET", "/gate/search", "", withQuery("ip="+strings.Repeat("x", 1025)))
	if text := logged.String(); !strings.Contains(text, `the value of \"ip\" is 1025 bytes long`) || strings.Contains(text, "xx") {
		t.Errorf("log: %s", text)
	}
}

// TestGateWithoutAPlan: a request without the field of the plan has no plan, as proxies send none
// for a client that has none. A dimension that chooses the plan must be there.
func TestGateWithoutAPlan(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.Policies = parsed(t, "  p: {limit: 2 per day per ip, plan-by: plan, plans: {pro: 9 per day}}\n"+
			"  q: {limit: 2 per day per plan, plan-by: plan, plans: {pro: 9 per day}}\n")
	})
	for _, c := range []struct {
		path   string
		plans  []string
		status int
		quota  string
	}{
		{"/gate/p?ip=a&header.plan=X-Plan", []string{"pro"}, 204, `"p";q=9;w=86400`},
		{"/gate/p?ip=a&header.plan=X-Plan", []string{"other"}, 204, `"p";q=2;w=86400`},
		{"/gate/p?ip=b&header.plan=X-Plan", nil, 204, `"p";q=2;w=86400`},
		{"/gate/p?ip=c&header.plan=X-Plan", []string{""}, 204, `"p";q=2;w=86400`},
		{"/gate/p?ip=d&header.plan=X-Plan", []string{"", "pro"}, 400, ""},
		{"/gate/p?ip=d&header.plan=X-Plan", []string{strings.Repeat("x", 1025)}, 400, ""},
		{"/gate/p?ip=d&address.plan=X-Plan", nil, 400, ""},
		{"/gate/p?header.ip=X-Ip&header.plan=X-Plan", []string{"pro"}, 400, ""},
		{"/gate/q?header.plan=X-Plan", []string{"pro"}, 204, `"q";q=9;w=86400`},
		{"/gate/q?header.plan=X-Plan", nil, 400, ""},
		{"/gate/q?header.plan=X-Plan", []string{""}, 400, ""},
		{"/gate/p?ip=e&header.plan=Host", nil, 204, `"p";q=9;w=86400`},
		{"/gate/p?ip=e&header.plan=X-Plan&header.plan=X-Other", []string{"pro"}, 400, ""},
		{"/gate/p?ip=e&header.plan=X-Other&header.plan=X-Plan", []string{"pro"}, 400, ""},
		{"/gate/p?ip=e&header.plan=X-Plan&header.plan=X-Other", nil, 400, ""},
		{"/gate/p?ip=e&plan=pro&header.plan=X-Other", nil, 400, ""},
	} {
		r := ask(s, "GET", c.path, "", func(r *http.Request) {
			r.Host, r.Header["X-Plan"] = "pro", c.plans
		})
		if quota := strings.Join(r.header["RateLimit-Policy"], ""); r.status != c.status || quota != c.quota {
			t.Errorf("%s %.20q: %d, RateLimit-Policy %s; want %d, %s", c.path, c.plans, r.status, quota, c.status, c.quota)
		}
	}
}

// TestGatesWarnOfAProxyInFront: a gate that counts by a private address, while a field has that
// of a client on the Internet, says so once; with and without keys:, and in any name.
func TestGatesWarnOfAProxyInFront(t *testing.T) {
	for _, c := range []struct{ name, query, field, value, warns string }{
		{"text", "ip=10.0.0.3", "X-Forwarded-For", "203.0.113.9", "while X-Forwarded-For has"},
		{"with a port", "ip=10.0.0.3%3A80", "X-Forwarded-For", "203.0.113.9", "while X-Forwarded-For has"},
		{"Forwarded", "ip=10.0.0.3", "Forwarded", `for="[2001:db8::9]:80";proto=https`, "while Forwarded has"},
		{"X-Client-IP", "ip=10.0.0.3", "X-Client-IP", "203.0.113.9", "while X-Client-Ip has"},
		{"an address of a field", "address.ip=X-Peer", "X-Real-IP", "203.0.113.9", "while X-Real-Ip has"},
		{"a public address", "ip=203.0.113.8", "X-Forwarded-For", "203.0.113.9", ""},
		{"a private client", "ip=10.0.0.3", "X-Forwarded-For", "10.0.0.4", ""},
		{"no address", "ip=ann", "X-Forwarded-For", "203.0.113.9", ""},
	} {
		s, logged := newServer(t, nil)
		for range 2 {
			play(t, s, "GET /gate/search?"+c.query+"\n  X-Peer: 10.0.0.3\n  "+c.field+": "+c.value+"\n=> 204")
		}
		text, want := logged.String(), 0
		if c.warns != "" {
			want = 1
		}
		if n := strings.Count(text, "by a private address"); n != want || !strings.Contains(text, c.warns) ||
			strings.Contains(text, "10.0.0.3") || strings.Contains(text, "203.0.113.9") {
			t.Errorf("%s: logged %q; want %d lines with %q and without addresses", c.name, text, want, c.warns)
		}
	}
}
