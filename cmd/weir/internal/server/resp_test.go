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
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/front/resp"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/listentest"
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
	r := ask(s, "GET", "/metrics", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenWord) })
	if want := "weir_unauthorized_requests_total 4\n"; !strings.Contains(r.body, want) {
		t.Errorf("the metrics lack %q:\n%s", want, r.body)
	}
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
	decide(t, s, "/v1/check", searchBody)
	if got := sendTo(t, plainly(s), "WEIR.CHECK search ip=1", "WEIR.CHECK search ip=1"); !strings.HasPrefix(got, "*9 :1 :1 :0 ") || !strings.Contains(got, "*9 :0 :0 :0 ") {
		t.Errorf("the second and third of two: %q", got)
	}
	if d := decide(t, s, "/v1/peek", searchBody); d.Allowed {
		t.Errorf("over HTTP: %+v, want a denial", d)
	}
	reload(t, s, "  search: {limit: 3 per minute per ip}\n")
	got := sendTo(t, plainly(s), "WEIR.PEEK search ip=1", "WEIR.RECORD search ip=1 2", "WEIR.CHECK nosuch", "WEIR.RESET search ip=1",
		"WEIR.PEEK search ip=1")
	for _, want := range []string{"*9 :1 :1 :1 ", "*9 :1 :2 :-1 ", "-ERR no policy \"nosuch\"; ", "+OK *9 :1 :1 :3 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want it to hold %q", got, want)
		}
	}
	metrics := ask(s, "GET", "/metrics", "").body
	for _, want := range []string{`{outcome="allowed",policy="search",protocol="http"} 1`, `{outcome="allowed",policy="search",protocol="resp"} 1`, `{outcome="denied",policy="search",protocol="resp"} 1`, `{outcome="recorded",policy="search",protocol="resp"} 1`,
		`weir_bad_requests_total{protocol="resp"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s:\n%s", want, metrics)
		}
	}
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

func TestRedisClientsUseTLSAndCertificates(t *testing.T) {
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
	if got := sendTo(t, over(authority.Issue(t, "client").TLS(t)), "WEIR.CHECK search ip=1"); !strings.HasPrefix(got, "*9 :1 ") {
		t.Errorf("with a certificate: %q", got)
	}
	if got := sendTo(t, over(), "WEIR.CHECK search ip=1"); !strings.HasPrefix(got, "-NOAUTH ") {
		t.Errorf("without: %q", got)
	}
}

// TestRedisListenerForOtherMachinesRequiresAuthentication: a RESP listener that other
// machines can reach must require a token or certificate.
func TestRedisListenerForOtherMachinesRequiresAuthentication(t *testing.T) {
	_, err := New(Config{Policies: file(t), RESPListen: "0.0.0.0:0"})
	var e *listen.ExposedError
	if !errors.As(err, &e) || e.Flag != "--resp-listen" {
		t.Errorf("%v, want a rejection of --resp-listen", err)
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
			t.Errorf("warned %q, want one about --resp-listen", warned)
		}
	}
	if _, err := New(Config{Policies: file(t), RESPListen: "nowhere"}); err == nil || !strings.Contains(err.Error(), "--resp-listen") {
		t.Errorf("a bad address: %v", err)
	}
}

// TestRedisCommandsAboveTheBoundGetAnError: when all places for decisions are taken, the
// next command gets an error at once.
func TestRedisCommandsAboveTheBoundGetAnError(t *testing.T) {
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Limits.InFlight = -1 })
	start(t, s)
	if got := sendTo(t, plainly(s), "WEIR.CHECK search ip=1"); !strings.HasPrefix(got, "-UNAVAILABLE no decision: too many requests") {
		t.Errorf("without room: %q", got)
	}
}

// TestRedisCommandsFailInAnOutage: without the store a policy that denies answers with an
// error. The log has the cause.
func TestRedisCommandsFailInAnOutage(t *testing.T) {
	s, logged := newServer(t, fallback.New(down{}, fallback.Deny), withRESP)
	stop := start(t, s)
	if got := sendTo(t, plainly(s), "WEIR.CHECK search ip=1"); !strings.HasPrefix(got, "-UNAVAILABLE no decision: the store did not answer") {
		t.Errorf("got %q, want an error", got)
	}
	stop()
	if text := logged.String(); !strings.Contains(text, "no decision could be made") || !strings.Contains(text, errDown.Error()) {
		t.Errorf("log: %s; want the cause", text)
	}
}

// TestRedisClientsAboveTheCapGetAnError: a connection above the cap gets an error.
func TestRedisClientsAboveTheCapGetAnError(t *testing.T) {
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
		t.Errorf("the second gets %q", b)
	}
}

// TestTakenRedisPortOpensNoListener: if the RESP port is taken, no other listener stays
// open.
func TestTakenRedisPortOpensNoListener(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	second, _ := newServer(t, nil, func(c *Config) { c.RESPListen = s.RESPAddr() })
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("a taken port: %v, want an error with the reason", err)
	}
	if _, err := net.Dial("tcp", second.Addr()); err == nil {
		t.Error("the other listener stays open")
	}
}
