package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
)

const (
	tokenWord = "the-token-of-the-callers"
	adminWord = "the-token-of-operators"
	gateWord  = "the-secret-of-the-gates"
)

func secret(t *testing.T, text string) *listen.Secret {
	t.Helper()
	got, err := listen.SecretText(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// shows adds the credentials of a caller to a request.
type shows struct{ bearer, gate string }

func (c shows) ask(s *Server, on *listener, method, target, body string) int {
	r := request(method, target, body)
	if c.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if c.gate != "" {
		r.Header.Set(httpapi.GateHeader, c.gate)
	}
	w := httptest.NewRecorder()
	on.ServeHTTP(w, r)
	return w.Code
}

// one call for each role.
var roleCalls = []struct {
	name, method, target, body string
	good                       int
}{
	{"probe", "GET", "/livez", "", 200},
	{"check", "POST", "/v1/check", searchBody, 200},
	{"gate", "GET", "/gate/push?teacher=1", "", 204},
	{"metrics", "GET", "/metrics", "", 200},
	{"forget", "DELETE", "/v1/keys/search?ip=1", "", 200},
	{"unknown", "GET", "/v2/check", "", 404},
}

// TestCallersHaveTheirRights tries every kind of call with every kind of caller. A row has
// the result of each call: + for success, 0 for 401, - for 404.
func TestCallersHaveTheirRights(t *testing.T) {
	nobody, token, admin, gate, wrong := shows{}, shows{bearer: tokenWord}, shows{bearer: adminWord}, shows{gate: gateWord},
		shows{tokenWord + "x", gateWord[1:]}
	for _, c := range []struct {
		name   string
		guards string // t, a, g for the secrets that are set, i for --insecure-listen
		admin  string // the admin listener, "" if none
		by     shows
		main   string // probe, check, gate, metrics, forget, unknown
		there  string // the same on the admin listener
	}{
		{"nothing set", "", "", nobody, "+++++-", ""},
		{"nothing set, admin apart", "", "127.0.0.1:0", nobody, "+++---", "++-++-"},
		{"token, nobody", "t", "", nobody, "+00000", ""},
		{"token, wrong", "t", "", wrong, "+00000", ""},
		{"token, token", "t", "", token, "+++++-", ""},
		{"token, gate's secret", "t", "", gate, "+00000", ""},
		{"token, admin apart, nobody", "t", "127.0.0.1:0", nobody, "+00000", "++0++-"},
		{"token, admin apart, token", "t", "127.0.0.1:0", token, "+++---", "++-++-"},
		{"gate, nobody", "g", "", nobody, "+00000", ""},
		{"gate, wrong", "g", "", wrong, "+00000", ""},
		{"gate, gate", "g", "", gate, "+0+000", ""},
		{"gate, admin apart, nobody", "g", "127.0.0.1:0", nobody, "+00000", "++0++-"},
		{"gate and admin, nobody", "ga", "", nobody, "+00000", ""},
		{"gate and admin, gate", "ga", "", gate, "+0+000", ""},
		{"gate and admin, admin", "ga", "", admin, "++0++-", ""},
		{"gate, insecure, nobody", "gi", "", nobody, "++0++-", ""},
		{"gate, insecure, gate", "gi", "", gate, "+++++-", ""},
		{"token and gate, gate", "tg", "", gate, "+0+000", ""},
		{"token and gate, token", "tg", "", token, "+++++-", ""},
		{"token and gate, wrong", "tg", "", wrong, "+00000", ""},
		{"admin, nobody", "a", "", nobody, "+++000", ""},
		{"admin, admin", "a", "", admin, "+++++-", ""},
		{"token and admin, token", "ta", "", token, "+++000", ""},
		{"token and admin, admin", "ta", "", admin, "++0++-", ""},
		{"all, apart, nobody", "tag", "127.0.0.1:0", nobody, "+00000", "+00000"},
		{"all, apart, token", "tag", "127.0.0.1:0", token, "+++000", "+0-000"},
		{"all, apart, admin", "tag", "127.0.0.1:0", admin, "+00---", "++0++-"},
		{"all, apart, gate", "tag", "127.0.0.1:0", gate, "+0+000", "+0-000"},
	} {
		s, _ := newServer(t, nil, func(config *Config) {
			config.AdminListen = c.admin
			for _, g := range c.guards {
				switch g {
				case 't':
					config.Auth.Token = secret(t, tokenWord)
				case 'a':
					config.Auth.Admin = secret(t, adminWord)
				case 'g':
					config.Auth.Gate = secret(t, gateWord)
				case 'i':
					config.Insecure = true
				}
			}
		})
		if got := answersTo(t, s, s.main, c.by); got != c.main {
			t.Errorf("%s: the main listener answers %s, want %s", c.name, got, c.main)
		}
		if s.admin == nil {
			continue
		}
		if got := answersTo(t, s, s.admin, c.by); got != c.there {
			t.Errorf("%s: the admin listener answers %s, want %s", c.name, got, c.there)
		}
	}
}

// answersTo makes every call to a listener and returns the results.
func answersTo(t *testing.T, s *Server, on *listener, by shows) string {
	t.Helper()
	got := ""
	for _, call := range roleCalls {
		switch status := by.ask(s, on, call.method, call.target, call.body); status {
		case http.StatusNotFound:
			got += "-"
		case http.StatusUnauthorized:
			got += "0"
		case call.good:
			got += "+"
		default:
			t.Errorf("%s: status %d", call.name, status)
		}
	}
	return got
}

// TestGateSecretOpensGatesAlone: without a token every other call is rejected, with the
// flags that open it, and listeners without gates are not opened at all.
func TestGateSecretOpensGatesAlone(t *testing.T) {
	onlyGates := func(c *Config) { c.Auth.Gate = secret(t, gateWord) }
	s, _ := newServer(t, nil, onlyGates)
	const rejected = " => 401 …--token-file…--insecure-listen…\n…--gate-secret-file…\n"
	for _, call := range []string{"POST /v1/check " + searchBody, "GET /v1/policies", "GET /metrics", "GET /v1/top", "POST /v1/reload", "DELETE /v1/keys/search?ip=1"} {
		play(t, s, call+rejected)
	}
	for flag, change := range map[string]func(*Config){
		"--resp-listen": withRESP, "--grpc-listen": func(c *Config) { c.GRPCListen = "127.0.0.1:0" },
	} {
		c := Config{Policies: file(t), Listen: "127.0.0.1:0"}
		onlyGates(&c)
		change(&c)
		if _, err := New(complete(c)); err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), "--token-file") {
			t.Errorf("%s beside a gate secret alone: %v, want an error that names it and --token-file", flag, err)
		}
		c.Insecure = true
		if _, err := New(complete(c)); err != nil {
			t.Errorf("%s with --insecure-listen: %v", flag, err)
		}
	}
}

func TestCallsWithoutATokenGet401(t *testing.T) {
	s, logged := newServer(t, nil, func(c *Config) { c.Auth = httpapi.Auth{Token: secret(t, tokenWord), Gate: secret(t, gateWord)} })
	play(t, s, `
		POST /v1/check `+searchBody+`
		  Authorization: Bearer guess-guess-guess-guess
		=> 401 …Authorization: Bearer TOKEN…
		  WWW-Authenticate: Bearer realm="weir"
		GET /gate/search?ip=1 => 401 …Weir-Gate-Secret…
		# a stranger reads only that it is ready
		GET /readyz => 200 {"ready":true}
		GET /metrics
		  Authorization: Bearer `+tokenWord+`
		=> 200 …weir_unauthorized_requests_total 2…
	`)
	if !strings.Contains(logged.String(), "gate: authentication required: the header field Weir-Gate-Secret is missing or wrong") || strings.Contains(logged.String(), "guess") {
		t.Errorf("log %s; want the missing secret of the gate, and no token", logged)
	}
}

// TestListenersForOtherMachinesRequireAuthentication: a listener that other machines can
// reach must require a secret of its callers, a certificate or --insecure-listen.
func TestListenersForOtherMachinesRequireAuthentication(t *testing.T) {
	token, admin, gate := secret(t, tokenWord), secret(t, adminWord), secret(t, gateWord)
	for _, c := range []struct {
		name      string
		config    Config
		rejected  string // the flag to blame
		operators string // the listener for operators
		warned    string // in the warning
	}{
		{"all local", Config{Listen: "127.0.0.1:0"}, "", "127.0.0.1:0", ""},
		{"unix", Config{Listen: "unix:/weir.sock"}, "", "unix:/weir.sock", ""},
		{"everywhere", Config{Listen: "0.0.0.0:0"}, "--listen", "", ""},
		{"every interface", Config{Listen: ":0"}, "--listen", "", ""},
		{"only a gate's secret", Config{Listen: "192.0.2.1:1", Auth: httpapi.Auth{Gate: gate}}, "", "127.0.0.1:7072", "--listen 192.0.2.1:1 speaks without TLS"},
		{"only the operators' token", Config{Listen: "192.0.2.1:1", Auth: httpapi.Auth{Admin: admin}}, "--listen", "", ""},
		{"a token", Config{Listen: "0.0.0.0:0", Auth: httpapi.Auth{Token: token}}, "", "127.0.0.1:7072", "--listen 0.0.0.0:0 speaks without TLS"},
		{"a token, operators everywhere", Config{Listen: "0.0.0.0:0", AdminListen: "0.0.0.0:1", Auth: httpapi.Auth{Token: token}}, "--admin-listen", "", ""},
		{"two tokens", Config{Listen: "0.0.0.0:0", AdminListen: "0.0.0.0:1", Auth: httpapi.Auth{Token: token, Admin: admin}}, "", "0.0.0.0:1", "--admin-listen 0.0.0.0:1 speaks"},
		{"on purpose", Config{Listen: "0.0.0.0:0", Insecure: true}, "", "127.0.0.1:7072", "anybody"},
		{"RESP everywhere", Config{RESPListen: "0.0.0.0:0"}, "--resp-listen", "", ""},
		{"RESP with a token", Config{RESPListen: "0.0.0.0:0", Auth: httpapi.Auth{Token: token}}, "", "127.0.0.1:7070", "--resp-listen 0.0.0.0:0 speaks"},
		{"RESP on purpose", Config{RESPListen: "0.0.0.0:0", Insecure: true}, "", "127.0.0.1:7070", "--resp-listen 0.0.0.0:0 can be reached"},
		{"gRPC everywhere", Config{GRPCListen: "0.0.0.0:0"}, "--grpc-listen", "", ""},
		{"gRPC on purpose", Config{GRPCListen: "0.0.0.0:0", Insecure: true}, "", "127.0.0.1:7070", "--grpc-listen 0.0.0.0:0 can be reached"},
	} {
		c.config.Policies = file(t)
		s, err := New(complete(c.config))
		if c.rejected != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.rejected+" ") || !strings.Contains(err.Error(), "without authentication; set --") {
				t.Errorf("%s: %v, want a rejection of %s", c.name, err, c.rejected)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := s.main.addr()
		if s.admin != nil {
			got = s.admin.addr()
		}
		if got != c.operators {
			t.Errorf("%s: operators at %s, want %s", c.name, got, c.operators)
		}
		if warned := strings.Join(s.Warnings(), "\n"); (warned == "") != (c.warned == "") || !strings.Contains(warned, c.warned) {
			t.Errorf("%s: warned %q, want %q in it", c.name, warned, c.warned)
		}
	}
	for flag, c := range map[string]Config{"--resp-listen": {RESPListen: "nowhere"}, "--grpc-listen": {GRPCListen: "nowhere"}} {
		c.Policies = file(t)
		if _, err := New(complete(c)); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s nowhere: %v, want an error that names the flag", flag, err)
		}
	}
}

// Every answer, of any status, forbids browsers to guess its type, cache it, run it or
// frame it.
func TestEveryAnswerHasStrictHeaders(t *testing.T) {
	s, _ := newServer(t, down{})
	for _, r := range []reply{
		ask(s, "GET", "/livez", ""), ask(s, "GET", "/metrics", ""), ask(s, "GET", "/nothing", ""),
		ask(s, "POST", "/v1/check", searchBody), ask(s, "POST", "/v1/check", "{"), ask(s, "GET", "/v1/check", ""),
		ask(s, "GET", "/gate/search?ip=1", ""), ask(s, "GET", "/gate/nothing", ""),
	} {
		if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-store" ||
			r.header.Get("Content-Security-Policy") != "default-src 'none'; frame-ancestors 'none'" {
			t.Errorf("status %d: %v", r.status, r.header)
		}
	}
}

// TestOPTIONSHasStrictHeaders: OPTIONS *, which net/http would answer itself, gets 404
// with our header fields.
func TestOPTIONSHasStrictHeaders(t *testing.T) {
	s, _ := newServer(t, nil)
	start(t, s)
	c := dial(t, s)
	io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	b, err := io.ReadAll(c)
	if text := string(b); err != nil || !strings.HasPrefix(text, "HTTP/1.1 404 ") || !strings.Contains(text, "X-Content-Type-Options: nosniff") {
		t.Errorf("%s, %v; want 404 with strict header fields", text, err)
	}
}

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
	operated, _ := newServer(t, nil, func(c *Config) { c.Auth.Admin = secret(t, adminWord) })
	for _, c := range []struct {
		s            *Server
		target, want string
	}{
		{s, "/livez", "200 {\"live\":true}\n"}, {s, "/readyz", "200 {\"ready\":true}\n"}, {operated, "/readyz", "200 {\"ready\":true}\n"}, {s, "/gate/search?ip=2", "204 "},
	} {
		if r := ask(c.s, "GET", c.target, "", called("evil.example")); fmt.Sprint(r.status, " ", r.body) != c.want {
			t.Errorf("%s shows a stranger's page %d %s, want %s", c.target, r.status, r.body, c.want)
		}
	}
}

// TestHostsOfOtherListeners: a listener that requires authentication, a unix socket, and a
// listener that is open on purpose accept any Host. The admin listener on loopback needs no
// token, so it checks the Host even if decisions need one.
func TestHostsOfOtherListeners(t *testing.T) {
	token := func(c *Config) { c.Auth.Token = secret(t, tokenWord) }
	everywhere := func(c *Config) { c.Listen, c.Insecure = "0.0.0.0:0", true }
	for _, c := range []struct {
		name    string
		changes []func(*Config)
		host    string
		status  int
	}{
		{"a token", []func(*Config){token}, "weir.default.svc", 200},
		{"a unix socket", []func(*Config){func(c *Config) { c.Listen = "unix:/weir.sock" }}, "evil.example", 200},
		{"everywhere", []func(*Config){everywhere}, "weir", 200},
		{"everywhere, with names", []func(*Config){everywhere, func(c *Config) { c.Hosts, _ = listen.ParseNames("weir") }}, "evil.example", 403},
	} {
		s, _ := newServer(t, nil, c.changes...)
		bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenWord) }
		if r := ask(s, "POST", "/v1/check", searchBody, called(c.host), bearer); r.status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, r.status, c.status, r.body)
		}
	}
	s, _ := newServer(t, nil, token, func(c *Config) { c.AdminListen = "127.0.0.1:0" })
	for host, want := range map[string]int{"evil.example": 403, "localhost": 200} {
		if r := ask(&Server{main: s.admin}, "GET", "/v1/top", "", called(host)); r.status != want {
			t.Errorf("the admin listener, %s: status %d, want %d", host, r.status, want)
		}
	}
}
