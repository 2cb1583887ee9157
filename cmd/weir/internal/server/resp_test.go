package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/front/resp"
)

// sendTo sends commands on a new connection and returns all answers.
func sendTo(t *testing.T, dial func() (net.Conn, error), commands ...string) string {
	t.Helper()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "%s\r\nQUIT\r\n", strings.Join(commands, "\r\n"))
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%q: %q, %v", commands, b, err)
	}
	return strings.ReplaceAll(strings.TrimSuffix(string(b), "+OK\r\n"), "\r\n", " ")
}

func plainly(s *Server) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial("tcp", s.RESPAddr()) }
}

// TestUnauthorizedRedisCommandsAreCounted: a wrong password and a command without one are
// counted like a 401 over HTTP.
func TestUnauthorizedRedisCommandsAreCounted(t *testing.T) {
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Auth.Token = secret(t, tokenWord) })
	start(t, s)
	sendTo(t, plainly(s), "AUTH "+gateWord, "HELLO 3 AUTH default "+gateWord, "PING", "AUTH "+tokenWord, "PING")
	ask(s, "POST", "/v1/check", searchBody)
	play(t, s, `
		GET /metrics
		  Authorization: Bearer `+tokenWord+`
		=> 200 …weir_unauthorized_requests_total 4…
	`)
}

// askRESP sends commands over a pipe, also to a server without a RESP listener, and returns
// all answers.
func askRESP(t *testing.T, s *Server, commands ...string) string {
	t.Helper()
	server := resp.New(resp.Config{Policies: s.set, Reservations: s.reservations, Capacity: s.capacity, Errors: s.errors})
	ours, theirs := net.Pipe()
	l := make(pipe, 1)
	l <- theirs
	close(l)
	var served sync.WaitGroup
	served.Go(func() { server.Serve(l) })
	got := sendTo(t, func() (net.Conn, error) { return ours, nil }, commands...)
	served.Wait()
	return got
}

// pipe is a listener with one connection.
type pipe chan net.Conn

func (p pipe) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipe) Close() error   { return nil }
func (p pipe) Addr() net.Addr { return &net.UnixAddr{} }

func withRESP(c *Config) { c.RESPListen = "127.0.0.1:0" }

// TestRedisClientsShareHistoriesWithHTTP: Redis clients and HTTP clients share histories,
// policies and counters.
func TestRedisClientsShareHistoriesWithHTTP(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	play(t, s, `
		let one "policy":"search","key":{"ip":"1"}
		POST /v1/check {$one} => 200 …
		WEIR.CHECK search ip=1 => *9 :1 :1 :0 …
		WEIR.CHECK search ip=1 => *9 :0 :0 :0 …
		POST /v1/peek {$one} => 200 {"allowed":false,…
		reload search: {limit: 3 per minute per ip}
	`)
	got := sendTo(t, plainly(s), "WEIR.PEEK search ip=1", "WEIR.RECORD search ip=1 2", "WEIR.CHECK nosuch", "WEIR.RESET search ip=1",
		"WEIR.PEEK search ip=1")
	for _, want := range []string{"*9 :1 :1 :1 ", "*9 :1 :2 :-1 ", "-ERR no policy \"nosuch\"; ", "+OK *9 :1 :1 :3 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want it to hold %q", got, want)
		}
	}
	wantMetrics(t, s, `weir_decisions_total{outcome="allowed",policy="search",protocol="http"} 1`, `weir_decisions_total{outcome="allowed",policy="search",protocol="resp"} 1`,
		`weir_decisions_total{outcome="denied",policy="search",protocol="resp"} 1`, `weir_decisions_total{outcome="recorded",policy="search",protocol="resp"} 1`,
		`weir_bad_requests_total{protocol="resp"} 1`)
}

// TestRedisClientsNeedTheToken: Redis clients need the token of HTTP decisions, and the
// operators' token for operators' commands.
func TestRedisClientsNeedTheToken(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		say    []string
		want   string
	}{
		{"nobody asks", func(*Config) {}, []string{"WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "*9+"},
		{"no token is shown", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"WEIR.PEEK search ip=1", "WEIR.POLICIES"}, "-NOAUTH-NOAUTH"},
		{"the token", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"AUTH " + tokenWord, "WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "+*9+"},
		{"another token", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"AUTH " + gateWord, "WEIR.PEEK search ip=1"}, "-WRONGPASS-NOAUTH"},
		{"two tokens", func(c *Config) { c.Auth.Token, c.Auth.Admin = secret(t, tokenWord), secret(t, adminWord) },
			[]string{"AUTH " + tokenWord, "WEIR.RESET search ip=1", "AUTH " + adminWord, "WEIR.RESET search ip=1"}, "+-NOPERM++"},
		{"the operators' alone", func(c *Config) { c.Auth.Token, c.Auth.Admin = secret(t, tokenWord), secret(t, adminWord) },
			[]string{"AUTH " + adminWord, "WEIR.PEEK search ip=1"}, "+-NOAUTH"},
		{"operators elsewhere", func(c *Config) { c.AdminListen = "127.0.0.1:0" }, []string{"WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "*9-NOPERM"},
	} {
		s, _ := newServer(t, nil, withRESP, c.change)
		stop := start(t, s)
		got := ""
		for _, word := range strings.Fields(sendTo(t, plainly(s), c.say...)) {
			switch {
			case word[0] == '+':
				got += "+"
			case word[0] == '*', strings.HasPrefix(word, "-NO"), strings.HasPrefix(word, "-WRONG"):
				got += word
			}
		}
		if got != c.want {
			t.Errorf("%s: %q is answered with %q, want %q", c.name, c.say, got, c.want)
		}
		stop()
	}
}
