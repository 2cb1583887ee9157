package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/listen/listentest"
)

// sayTo sends commands on a connection of their own and returns all answers.
func sayTo(t *testing.T, dial func() (net.Conn, error), commands ...string) string {
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

// TestRedisClientsUnauthorized: a wrong password and a command without one are counted
// as a 401 over HTTP is.
func TestRedisClientsUnauthorized(t *testing.T) {
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Auth.Token = secret(t, tokenWord) })
	start(t, s)
	sayTo(t, plainly(s), "AUTH "+gateWord, "HELLO 3 AUTH default "+gateWord, "PING", "AUTH "+tokenWord, "PING")
	ask(s, "POST", "/v1/check", searchBody)
	r := ask(s, "GET", "/metrics", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenWord) })
	if want := "weir_unauthorized_requests_total 4\n"; !strings.Contains(r.body, want) {
		t.Errorf("the metrics lack %q:\n%s", want, r.body)
	}
}

func withRESP(c *Config) { c.RESPListen = "127.0.0.1:0" }

// TestRedisClientsAskTheSame: histories, policies in force and counters are those
// of HTTP.
func TestRedisClientsAskTheSame(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	decide(t, s, "/v1/check", searchBody)
	if got := sayTo(t, plainly(s), "WEIR.CHECK search ip=1", "WEIR.CHECK search ip=1"); !strings.HasPrefix(got, "*8 :1 :1 :0 ") || !strings.Contains(got, "*8 :0 :0 :0 ") {
		t.Errorf("the second and third of two: %q", got)
	}
	if d := decide(t, s, "/v1/peek", searchBody); d.Allowed {
		t.Errorf("over HTTP: %+v, want a denial", d)
	}
	reload(t, s, "  search: {limit: 3 per minute per ip}\n")
	got := sayTo(t, plainly(s), "WEIR.PEEK search ip=1", "WEIR.RECORD search ip=1 2", "WEIR.CHECK nosuch", "WEIR.RESET search ip=1",
		"WEIR.PEEK search ip=1", "CL.THROTTLE k 15 30 60", "CL.THROTTLE k 0 30 60")
	for _, want := range []string{"*8 :1 :1 :1 ", "*8 :1 :2 :-1 ", "-ERR no policy \"nosuch\"; ", "+OK *8 :1 :1 :3 ", "*5 :0 :16 :15 :-1 :2 ", "*5 :1 :1 :0 :2 :2"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want it to hold %q", got, want)
		}
	}
	metrics := ask(s, "GET", "/metrics", "").body
	for _, want := range []string{`{outcome="allowed",policy="search",protocol="http"} 1`, `{outcome="allowed",policy="search",protocol="resp"} 1`, `{outcome="denied",policy="search",protocol="resp"} 1`, `{outcome="recorded",policy="search",protocol="resp"} 1`,
		`weir_bad_requests_total{protocol="resp"} 1`, `weir_throttle_total{outcome="allowed"} 1`, `weir_throttle_total{outcome="denied"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics say nothing of %s:\n%s", want, metrics)
		}
	}
}

// TestRedisClientsShowTheToken: what opens decisions over HTTP opens them here,
// and what is for operators stays theirs.
func TestRedisClientsShowTheToken(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		say    []string
		want   string
	}{
		{"nobody asks", func(*Config) {}, []string{"WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "*8+"},
		{"no token is shown", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"WEIR.PEEK search ip=1", "CL.THROTTLE k 1 1 1"}, "-NOAUTH-NOAUTH"},
		{"the token", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"AUTH " + tokenWord, "WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "+*8+"},
		{"another token", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"AUTH " + gateWord, "WEIR.PEEK search ip=1"}, "-WRONGPASS-NOAUTH"},
		{"two tokens", func(c *Config) { c.Auth.Token, c.Auth.Admin = secret(t, tokenWord), secret(t, adminWord) },
			[]string{"AUTH " + tokenWord, "WEIR.RESET search ip=1", "AUTH " + adminWord, "WEIR.RESET search ip=1"}, "+-NOPERM++"},
		{"the operators' alone", func(c *Config) { c.Auth.Token, c.Auth.Admin = secret(t, tokenWord), secret(t, adminWord) },
			[]string{"AUTH " + adminWord, "WEIR.PEEK search ip=1"}, "+-NOAUTH"},
		{"operators elsewhere", func(c *Config) { c.AdminListen = "127.0.0.1:0" }, []string{"WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "*8-NOPERM"},
	} {
		s, _ := newServer(t, nil, withRESP, c.change)
		stop := start(t, s)
		got := ""
		for _, word := range strings.Fields(sayTo(t, plainly(s), c.say...)) {
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

func TestRedisClientsOverTLS(t *testing.T) {
	authority := listentest.NewAuthority(t)
	pair := authority.Issue(t, "weir")
	dir := t.TempDir()
	files := listen.TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca")}
	for name, text := range map[string]string{files.Cert: pair.Cert, files.Key: pair.Key, files.ClientCA: authority.PEM} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := newServer(t, nil, withRESP, func(c *Config) {
		var err error
		if c.TLS, err = listen.LoadTLS(files, nil); err != nil {
			t.Fatal(err)
		}
	})
	start(t, s)
	over := func(certificates ...tls.Certificate) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			return tls.Dial("tcp", s.RESPAddr(), &tls.Config{RootCAs: authority.Pool(), Certificates: certificates})
		}
	}
	if got := sayTo(t, over(authority.Issue(t, "client").TLS(t)), "WEIR.CHECK search ip=1"); !strings.HasPrefix(got, "*8 :1 ") {
		t.Errorf("with a certificate: %q", got)
	}
	if got := sayTo(t, over(), "WEIR.CHECK search ip=1"); !strings.HasPrefix(got, "-NOAUTH ") {
		t.Errorf("without: %q", got)
	}
}

// TestRedisListenerIsNotExposed: who listens where other machines can reach it
// must ask something of them.
func TestRedisListenerIsNotExposed(t *testing.T) {
	_, err := New(Config{Policies: file(t), RESPListen: "0.0.0.0:0"})
	var e *listen.ExposedError
	if !errors.As(err, &e) || e.Flag != "--resp-listen" {
		t.Errorf("%v, want a refusal of --resp-listen", err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Auth.Token = secret(t, tokenWord) },
		func(c *Config) { c.Insecure = true },
	} {
		c := Config{Policies: file(t), RESPListen: "0.0.0.0:0"}
		change(&c)
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if warned := strings.Join(s.Warnings(), "\n"); !strings.Contains(warned, "--resp-listen") {
			t.Errorf("warned %q, want a word on --resp-listen", warned)
		}
	}
	if _, err := New(Config{Policies: file(t), RESPListen: "nowhere"}); err == nil || !strings.Contains(err.Error(), "--resp-listen") {
		t.Errorf("a bad address: %v", err)
	}
}

// TestRedisClientsAreShed: as many decisions as may wait for the store are under
// way, and one more is told so.
func TestRedisClientsAreShed(t *testing.T) {
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Limits.InFlight = -1 })
	start(t, s)
	for _, command := range []string{"WEIR.CHECK search ip=1", "CL.THROTTLE k 1 1 1"} {
		if got := sayTo(t, plainly(s), command); !strings.HasPrefix(got, "-UNAVAILABLE no decision: too many requests") {
			t.Errorf("%s without room: %q", command, got)
		}
	}
}

// TestRedisClientsAreTold that there are too many of them.
func TestRedisClientsAreTold(t *testing.T) {
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Limits.Conns = 1 })
	start(t, s)
	first, err := net.Dial("tcp", s.RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	first.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(first, "PING\r\n")
	if _, err := io.ReadFull(first, make([]byte, len("+PONG\r\n"))); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", s.RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	second.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(second, "PING\r\n")
	if b, _ := io.ReadAll(second); !strings.HasPrefix(string(b), "-ERR max number of clients reached") {
		t.Errorf("the second hears %q", b)
	}
}

// TestRedisListenerOnATakenPort: nothing stays open.
func TestRedisListenerOnATakenPort(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	second, _ := newServer(t, nil, func(c *Config) { c.RESPListen = s.RESPAddr() })
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("a taken port: %v, want an error that says so", err)
	}
	if _, err := net.Dial("tcp", second.Addr()); err == nil {
		t.Error("the other listener stays open")
	}
}

// TestRedisClientsAllocateNothing: a policy is found and asked without a word kept.
func TestRedisClientsAllocateNothing(t *testing.T) {
	s, _ := newServer(t, weir.NewMemory(), withRESP)
	p := respPolicies{s}
	key, ctx := weir.K("1"), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		found, err := p.Policy("search")
		if err != nil {
			t.Fatal(err)
		}
		found.Decide(ctx, key, weir.OpAttempt, 1, "")
	}); n != 0 {
		t.Errorf("%v allocations for a decision", n)
	}
}
