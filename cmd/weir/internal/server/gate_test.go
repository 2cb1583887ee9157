package server

import (
	"fmt"
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

// TestGateShowsTheLimit: a grant shows all limits, a denial the one that denies.
func TestGateShowsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		play(t, s, `
			GET /gate/slack?category=errors&n=2 => 204
			  RateLimit: "slack.channel";r=98;t=1800, "slack.category";r=0;t=1800
			GET /gate/slack?category=errors => 429 …
			  RateLimit: "slack.category";r=0;t=1800
			# more than the limit can never pass
			GET /gate/slack?category=errors&n=3 => 429 …ask for less…
			  Retry-After:
			# an interval
			GET /gate/push?teacher=42 => 204
			sleep 500ms
			GET /gate/push?teacher=42 => 429 …
			  RateLimit: "push.interval";r=0;t=3
			  RateLimit-Policy: "push";q=10;w=60, "push.interval";q=1;w=3
			  Retry-After: 3
			# a part
			GET /gate/batch?n=6 => 204
			  Weir-Granted: 4
			GET /gate/batch?n=1 => 429 …
		`)
	})
}

// TestGateReadsDimensions: the order of dimensions in a query does not matter, and each value
// belongs to its dimension. Dimensions with the name of a setting, or with the prefix of
// settings, can be passed.
func TestGateReadsDimensions(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		GET /gate/wide?a=1&b=2&c=3&d=4&e=5&f=6 => 204
		GET /gate/wide?f=6&e=5&d=4&c=3&b=2&a=1 => 204
		POST /v1/check {"policy":"wide","key":{"e":"5","a":"1","f":"6","b":"2","c":"3","d":"4"}} => 200 {"allowed":false,…"e":"5",…"used":2,…
		GET /gate/wide?a=1&b=2&c=3&d=4&e=6&f=5 => 204
		GET /gate/wide?a=1&b=2&c=3&d=4&e=5&e=5&f=6 => 400 …e is given twice…
		GET /gate/wide?a=1&b=2&c=3&d=4&f=6 => 400 …"e"…

		GET /gate/odd?key.n=5&key.deny=yes&key.key.x=1&n=2 => 204
		POST /v1/peek {"policy":"odd","key":{"n":"5","deny":"yes","key.x":"1"}} => 200 …"remaining":0,…
		# a reset has no settings, so n and deny need no prefix there
		DELETE /v1/keys/odd?n=5&deny=yes&key.key.x=1 => 204
	`)
}

// TestGateReadsHeaders: a gate takes the key from a header field, as it is or as an address.
func TestGateReadsHeaders(t *testing.T) {
	for _, c := range []struct {
		name, query, fields string
		ip                  string // the key that is charged
	}{
		{"as it stands", "header.ip=X-User", "X-User: a&n=2+%41", "a&n=2+%41"},
		{"however it is spelled", "header.ip=x-uSER", "X-User: ann", "ann"},
		{"an address", "address.ip=X-Real-Ip", "X-Real-Ip: 192.0.2.1", "192.0.2.1"},
		{"the last of a list", "address.ip=X-Forwarded-For", "X-Forwarded-For: nonsense, 192.0.2.1,192.0.2.2", "192.0.2.2"},
		{"the last of several fields", "address.ip=X-Forwarded-For", "X-Forwarded-For: 192.0.2.9\n  X-Forwarded-For: 192.0.2.3", "192.0.2.3"},
		{"IPv6, by its network", "address.ip=X-Real-Ip", "X-Real-Ip: 2001:DB8::1:2:3", "2001:db8::/64"},
		{"IPv4 behind NAT64", "address.ip=X-Real-Ip", "X-Real-Ip: 64:ff9b::192.0.2.1", "192.0.2.1"},
		{"IPv4 in IPv6", "address.ip=X-Real-Ip", "X-Real-Ip: ::ffff:192.0.2.1", "192.0.2.1"},
	} {
		s, _ := newServer(t, nil)
		play(t, s, fmt.Sprintf(`
			# %s
			GET /gate/search?n=2&%s
			  %s
			=> 204
			POST /v1/peek {"policy":"search","key":{"ip":"%s"}} => 200 …"remaining":0,…
		`, c.name, c.query, c.fields, c.ip))
	}
}

func TestGateRejectsHeaders(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		GET /gate/search?header.ip=X-User => 400 …no header field X-User…
		GET /gate/search?header.ip=X-User
		  X-User:
		=> 400 …no header field X-User…
		GET /gate/search?header.ip=X-User
		  X-User: a
		  X-User: b
		=> 400 …more than once…
		GET /gate/search?header.ip= => 400 …no header field…
		GET /gate/search?address.ip=X-User
		  X-User: ann
		=> 400 …does not end with an IP address; …
		GET /gate/search?address.ip=X-User
		  X-User: 192.0.2.1,
		=> 400 …does not end with an IP address; …
		GET /gate/search?ip=1&header.ip=X-User
		  X-User: a
		=> 400 …ip is given twice…
		GET /gate/search?ip=1&header.=X-User
		  X-User: a
		=> 400 …no dimension…
		GET /gate/search?ip=1 => 204
		# the key of a reset is in its query, never in a header that any client can set
		DELETE /v1/keys/search?header.ip=X-User
		  X-User: a
		=> 400 …no dimension "header.ip"…
	`)
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
