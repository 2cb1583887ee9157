package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// TestRejectedGateCallsAreLogged: a proxy hides the answer of a rejected gate call, so the
// log names the fault, without values of keys, at most ten times in ten seconds.
func TestRejectedGateCallsAreLogged(t *testing.T) {
	for target, want := range map[string]string{
		"/gate/search":                         `gate: policy "search" needs a value for "ip"`,
		"/gate/search?user=alice-key":          `gate: policy "search" has no dimension "user"`,
		"/gate/search?ip=1&user=alice-key":     `gate: policy "search" has no dimension "user"`,
		"/gate/serch?ip=alice-key":             `gate: no policy "serch"; did you mean "search"?`,
		"/gate/search?alice-key":               `gate: policy "search": query: a part has no =`,
		"/gate/search?ip=%25zz%zz":             `gate: policy "search": query: a % begins no escape`,
		"/gate/search?header.ip=X-Ip":          `gate: policy "search": the request has no header field X-Ip`,
		"/gate/search?ip=alice-key&n=0":        `gate: policy "search": query: n must be a whole number`,
		"/gate/search?ip=" + longValue:         `gate: policy "search": the value of "ip" is 1025 bytes long`,
		"/gate/search?ip=1&ip=alice-key":       `gate: policy "search": query: the dimension ip is given twice`,
		"/gate/push?teacher=a&class=alice-key": `gate: policy "push" has no dimension "class"`,
	} {
		s, logged := newServer(t, nil)
		path, query, _ := strings.Cut(target, "?")
		if r := ask(s, "GET", path, "", withQuery(query)); r.status != 400 && r.status != 404 {
			t.Errorf("%s: status %d", target, r.status)
		}
		if text := strings.ReplaceAll(logged.String(), `\"`, `"`); strings.Count(text, "\n") != 1 || !strings.Contains(text, want) || strings.Contains(text, "alice-key") {
			t.Errorf("%s is logged as %s\nwant %s and no key", target, text, want)
		}
	}
	s, logged := newServer(t, nil, func(c *Config) { c.Auth.Gate = secret(t, gateWord) })
	ask(s, "GET", "/gate/search?ip=1", "")
	if !strings.Contains(logged.String(), "gate: authentication required: the header field Weir-Gate-Secret is missing or wrong") {
		t.Errorf("without the secret: %s", logged)
	}
	synctest.Test(t, func(t *testing.T) {
		s, logged := newServer(t, nil)
		for range 100 {
			ask(s, "GET", "/gate/search", "")
		}
		if n := strings.Count(logged.String(), "\n"); n != 10 {
			t.Errorf("%d lines of 100 rejected calls, want 10", n)
		}
		time.Sleep(10 * time.Second)
		logged.Reset()
		ask(s, "GET", "/gate/search", "")
		ask(s, "GET", "/gate/search?ip=1", "")
		if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "not_logged=90") {
			t.Errorf("ten seconds later: %s, want one line with not_logged=90", text)
		}
	})
}

var longValue = strings.Repeat("x", 1025)
