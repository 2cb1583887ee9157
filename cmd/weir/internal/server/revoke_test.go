//go:build unix

package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/testkit/listentest"
)

const nextWord = "the-token-of-tomorrow"

// secretIn returns a secret in a file, and a function that replaces the file.
func secretIn(t *testing.T, words string) (s *listen.Secret, rotate func(words string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	write := func(words string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(words), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(words)
	s, err := listen.SecretFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, func(words string) {
		t.Helper()
		write(words)
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

// talk sends a line over a connection that stays open, and returns the first line of the
// answer; "" is the end of the connection.
type talk struct {
	net.Conn
	in *bufio.Reader
}

func talkTo(t *testing.T, c net.Conn, err error) talk {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return talk{c, bufio.NewReader(c)}
}

func (c talk) say(line string) string {
	fmt.Fprint(c, line+"\r\n")
	answer, _ := c.in.ReadString('\n')
	if strings.HasPrefix(answer, "*9") { // a decision
		for range 9 {
			if line, _ := c.in.ReadString('\n'); strings.HasPrefix(line, "$") {
				c.in.ReadString('\n')
			}
		}
	}
	return answer
}

// get requests a path and returns the status, 0 at the end of the connection.
func (c talk) get(path, header string) int {
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, header)
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0
	}
	r.Body.Close()
	return r.StatusCode
}

// respClient returns an open connection of a Redis client.
func respClient(t *testing.T, s *Server) talk {
	t.Helper()
	c, err := net.Dial("tcp", s.RESPAddr())
	return talkTo(t, c, err)
}

// wants sends commands and compares the beginnings of the answers.
func (c talk) wants(t *testing.T, commands ...string) {
	t.Helper()
	for i := 0; i < len(commands); i += 2 {
		if got := c.say(commands[i]); !strings.HasPrefix(got, commands[i+1]) {
			t.Errorf("%s: %q, want %s", commands[i], got, commands[i+1])
		}
	}
}

// Replacing a token ends the rights of Redis clients that have used the old one. While
// both tokens are in force, no client loses its rights.
func TestRotationReachesOpenRedisConnections(t *testing.T) {
	token, rotate := secretIn(t, tokenWord)
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Auth.Token = token })
	start(t, s)
	old := respClient(t, s)
	old.wants(t, "AUTH "+tokenWord, "+OK", "WEIR.CHECK search ip=1", "*9")
	rotate(tokenWord + "\n" + nextWord)
	old.wants(t, "WEIR.CHECK search ip=2", "*9")
	both := respClient(t, s)
	both.wants(t, "AUTH "+tokenWord, "+OK", "AUTH "+nextWord, "+OK")
	rotate(nextWord)
	for _, command := range []string{"WEIR.CHECK search ip=3", "WEIR.RESET search ip=1"} {
		if got := old.say(command); !strings.HasPrefix(got, "-NOAUTH") && got != "" {
			t.Errorf("%s with a token that was replaced: %q, want NOAUTH or the end", command, got)
		}
	}
	both.wants(t, "WEIR.CHECK search ip=3", "*9")
	play(t, s, `
		POST /v1/peek {"policy":"search","key":{"ip":"1"}}
		  Authorization: Bearer `+nextWord+`
		=> 200 …"remaining":1,…
	`)
}

// Replacing the operators' token ends the right to reset on open connections, and no
// other right.
func TestRotationOfTheOperatorsTokenEndsResets(t *testing.T) {
	admin, rotate := secretIn(t, adminWord)
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Auth = httpapi.Auth{Token: secret(t, tokenWord), Admin: admin} })
	start(t, s)
	client := respClient(t, s)
	client.wants(t, "AUTH "+tokenWord, "+OK", "AUTH "+adminWord, "+OK", "WEIR.RESET search ip=1", "+OK")
	rotate(nextWord)
	client.wants(t, "WEIR.RESET search ip=1", "-NOPERM", "WEIR.CHECK search ip=1", "*9")
}

// An old gate secret is rejected on open connections.
func TestRotationOfTheGateSecretReachesOpenConnections(t *testing.T) {
	gate, rotate := secretIn(t, gateWord)
	s, _ := newServer(t, nil, func(c *Config) { c.Auth = httpapi.Auth{Token: secret(t, tokenWord), Gate: gate} })
	start(t, s)
	proxy := talkTo(t, dial(t, s), nil)
	header := httpapi.GateHeader + ": " + gateWord + "\r\n"
	if got := proxy.get("/gate/search?ip=1", header); got != 204 {
		t.Fatalf("with the secret: status %d", got)
	}
	rotate(nextWord)
	if got := proxy.get("/gate/search?ip=1", header); got != 401 {
		t.Errorf("with a secret that was replaced: status %d, want 401", got)
	}
	if got := proxy.get("/livez", ""); got != 0 {
		t.Errorf("after 401: status %d, want the end of the connection", got)
	}
}

// A certificate of a trusted authority authorizes clients over HTTP/1.1, HTTP/2, RESP and gRPC.
// Removing the authority ends the rights of open connections.
func TestAuthoritiesOfClientsAuthorize(t *testing.T) {
	ours, gone, kept := listentest.NewAuthority(t), listentest.NewAuthority(t), listentest.NewAuthority(t)
	loaded, trust := loadTLS(t, ours, gone.PEM+kept.PEM)
	s, _ := newServer(t, nil, withRESP, withGRPC(t), func(c *Config) { c.TLS = loaded })
	start(t, s)
	clients := map[string]func() bool{} // report whether the client is authorized
	for name, by := range map[string]*listentest.Authority{"gone": gone, "kept": kept, "none": nil} {
		config := &tls.Config{RootCAs: ours.Pool()}
		if by != nil {
			config.Certificates = []tls.Certificate{by.Issue(t, name).TLS(t)}
		}
		c, err := tls.Dial("tcp", s.Addr(), config)
		one := talkTo(t, c, err)
		clients[name+", HTTP/1.1"] = func() bool { return one.get("/v1/policies", "") == 200 }
		two := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}}
		t.Cleanup(two.CloseIdleConnections)
		clients[name+", HTTP/2"] = func() bool {
			r, err := two.Get(s.main.url() + "/v1/policies")
			if err != nil {
				return false
			}
			defer r.Body.Close()
			return r.StatusCode == 200 && r.ProtoMajor == 2
		}
		c, err = tls.Dial("tcp", s.RESPAddr(), config)
		redis := talkTo(t, c, err)
		clients[name+", RESP"] = func() bool { return strings.HasPrefix(redis.say("WEIR.PEEK search ip=1"), "*9") }
		proxy := proxyOf(t, s, config)
		clients[name+", gRPC"] = func() bool {
			_, err := rateLimit(t, proxy, "", "edge", "user="+name)
			if err != nil && grpcstatus.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %v", name, err)
			}
			return err == nil
		}
	}
	wants := func(when string, authorized ...string) {
		t.Helper()
		for client, may := range clients {
			name, _, _ := strings.Cut(client, ",")
			if want := slices.Contains(authorized, name); may() != want {
				t.Errorf("%s, %s: authorized %t, want %t", when, client, !want, want)
			}
		}
	}
	wants("both trusted", "gone", "kept")
	trust(kept.PEM)
	wants("one removed", "kept")
}
