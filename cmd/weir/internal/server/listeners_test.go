//go:build unix

package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
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
	"github.com/weirlimit/weir/internal/testkit/must"
)

// tlsOn returns a change of the configuration that serves TLS for 127.0.0.1, with
// client certificates if clients is not nil.
func tlsOn(t *testing.T, server, clients *listentest.Authority) func(*Config) {
	t.Helper()
	trusted := ""
	if clients != nil {
		trusted = clients.PEM
	}
	loaded, _ := loadTLS(t, server, trusted)
	return func(c *Config) { c.TLS = loaded }
}

// loadTLS loads files of a certificate and of trusted clients, "" for none. trust replaces the
// latter.
func loadTLS(t *testing.T, server *listentest.Authority, trusted string) (loaded *listen.TLS, trust func(pem string)) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	pair := server.Issue(t, "weir.test")
	files := listen.TLSFiles{Cert: write("cert", pair.Cert), Key: write("key", pair.Key)}
	if trusted != "" {
		files.ClientCA = write("ca", trusted)
	}
	var err error
	loaded, err = listen.LoadTLS(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return loaded, func(pem string) {
		write("ca", pem)
		must.Do(t, loaded.Reload())
	}
}

// status requests a URL with a client of the TLS configuration.
func status(t *testing.T, config *tls.Config, url string) (status int, protocol string) {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	io.Copy(io.Discard, r.Body)
	return r.StatusCode, r.Proto
}

func TestTLSServesHTTP2AndRejectsPlainHTTP(t *testing.T) {
	ours := listentest.NewAuthority(t)
	s, logged := newServer(t, nil, tlsOn(t, ours, nil))
	stop := start(t, s)
	if got, protocol := status(t, &tls.Config{RootCAs: ours.Pool()}, s.main.url()+"/livez"); got != 200 || protocol != "HTTP/2.0" {
		t.Errorf("over TLS: status %d, %s", got, protocol)
	}
	if r, err := http.Get("http://" + s.Addr() + "/livez"); err != nil || r.StatusCode != 400 {
		t.Errorf("without TLS on a listener with TLS: %v, %v; want 400", r, err)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v\n%s", err, logged)
	}
}

// A client certificate replaces the token. Probes need neither.
func TestClientCertificateInPlaceOfToken(t *testing.T) {
	ours, clients := listentest.NewAuthority(t), listentest.NewAuthority(t)
	s, _ := newServer(t, nil, tlsOn(t, ours, clients), func(c *Config) {
		c.Listen, c.AdminListen = "0.0.0.0:0", "127.0.0.1:0"
	})
	start(t, s)
	_, port, _ := net.SplitHostPort(s.Addr())
	base := "https://127.0.0.1:" + port
	bare := &tls.Config{RootCAs: ours.Pool()}
	with := &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{clients.Issue(t, "proxy").TLS(t)}}
	for _, c := range []struct {
		by   *tls.Config
		path string
		want int
	}{
		{bare, "/livez", 200}, {bare, "/gate/search?ip=1", 401}, {bare, "/v1/policies", 401},
		{with, "/livez", 200}, {with, "/gate/search?ip=1", 204}, {with, "/v1/policies", 200},
		{with, "/metrics", 404}, // on the admin listener
	} {
		if got, _ := status(t, c.by, base+c.path); got != c.want {
			t.Errorf("%s, with a certificate %t: status %d, want %d", c.path, c.by == with, got, c.want)
		}
	}
	if got, _ := status(t, nil, "http://"+s.admin.addr()+"/metrics"); got != 200 {
		t.Errorf("the admin listener on loopback, without TLS: status %d, want 200", got)
	}
}

// TestUnixSocketsAreServed: HTTP and gRPC need no port on the same machine. The sockets have
// the configured mode, and are removed.
func TestUnixSocketsAreServed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "weir.sock")
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) {
		c.Listen, c.SocketMode, c.GRPCListen = "unix:"+path, 0o600, "unix:"+filepath.Join(dir, "rls.sock")
	})
	stop := start(t, s)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", info, err)
	}
	c, err := net.Dial("unix", path)
	if got := talkTo(t, c, err).get("/v1/policies", ""); got != 200 {
		t.Errorf("over the socket: status %d", got)
	}
	if a, err := rateLimit(t, proxyOf(t, s, nil), "", "edge", "user=ann"); err != nil {
		t.Errorf("gRPC over a socket: %v, %v", a, err)
	}
	must.Do(t, stop())
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("sockets that are still there: %v, %v", left, err)
	}
}

// TestUnixSocketsTakeNoCertificates: they have no TLS, so an authority of clients closes no socket,
// and opens none beside a gate secret.
func TestUnixSocketsTakeNoCertificates(t *testing.T) {
	dir, clients := t.TempDir(), tlsOn(t, listentest.NewAuthority(t), listentest.NewAuthority(t))
	for _, flag := range []string{grpcFlag, respFlag} {
		socket := filepath.Join(dir, flag)
		on := func(c *Config) {
			if c.GRPCListen = "unix:" + socket; flag == respFlag {
				c.RESPListen, c.GRPCListen = c.GRPCListen, ""
			}
		}
		s, _ := newServer(t, nil, withGRPC(t), clients, on)
		start(t, s)
		if flag == grpcFlag {
			if _, err := rateLimit(t, proxyOf(t, s, nil), "", "edge", "user=ann"); err != nil {
				t.Fatal(err)
			}
		} else if got := sendTo(t, func() (net.Conn, error) { return net.Dial("unix", socket) }, "WEIR.PEEK search ip=1"); !strings.HasPrefix(got, "*9 ") {
			t.Errorf("%s: %s, want a decision", flag, got)
		}
		c := Config{Policies: file(t), Auth: httpapi.Auth{Gate: secret(t, gateWord)}}
		clients(&c)
		on(&c)
		if _, err := New(complete(c)); err == nil || !strings.Contains(err.Error(), flag+" unix:"+socket+" has no gates") {
			t.Errorf("%s beside a gate secret alone: %v, want an error that it has no gates", flag, err)
		}
	}
}

// The admin listener serves operators and probes while the main listener waits for its
// last request.
func TestAdminOutlivesTheMainListener(t *testing.T) {
	e := newHeld()
	s, _ := newServer(t, e, func(c *Config) { c.AdminListen = "127.0.0.1:0" })
	stop := start(t, s)
	answered := make(chan error, 1)
	go func() {
		_, _, err := checkOver(s, searchBody)
		answered <- err
	}()
	<-e.arrived
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	must.Await(t, "the main listener takes no requests", func() bool { return isClosed(s.main) })
	for path, want := range map[string]int{"/metrics": 200, "/livez": 200, "/readyz": 503} {
		if got, _ := status(t, nil, "http://"+s.admin.addr()+path); got != want {
			t.Errorf("%s while draining: status %d, want %d", path, got, want)
		}
	}
	close(e.release)
	must.Do(t, <-answered)
	must.Do(t, <-stopped)
}

// If one listener cannot be opened, no other stays open.
func TestListenAllOrNone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, change := range map[string]func(*Config){
		"main":  func(c *Config) { c.Listen = taken.Addr().String() },
		"admin": func(c *Config) { c.AdminListen = taken.Addr().String() },
		"RESP":  func(c *Config) { c.RESPListen = taken.Addr().String() },
		"gRPC":  func(c *Config) { c.GRPCListen = taken.Addr().String() },
	} {
		s, _ := newServer(t, nil, change)
		if err := s.Listen(); err == nil || !strings.Contains(err.Error(), "cannot listen") {
			t.Errorf("%s: %v, want an error with the reason", name, err)
		}
		if name == "main" {
			continue
		}
		if !isClosed(s.main) {
			t.Errorf("%s: the main listener is open all the same", name)
		}
	}
}

const nextWord = "the-token-of-tomorrow"

// secretIn returns a secret in a file, and a function that replaces the file.
func secretIn(t *testing.T, words string) (s *listen.Secret, rotate func(words string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	write := func(words string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(words), 0o600))
	}
	write(words)
	var err error
	s, err = listen.SecretFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, func(words string) {
		t.Helper()
		write(words)
		must.Do(t, s.Reload())
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
	must.Do(t, err)
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
	client.wants(t, "AUTH "+tokenWord, "+OK", "AUTH "+adminWord, "+OK", "WEIR.RESET nosuch ip=1", "-ERR no policy")
	rotate(nextWord)
	client.wants(t, "WEIR.RESET nosuch ip=1", "-NOPERM", "WEIR.CHECK search ip=1", "*9")
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

// A Redis client that connects without TLS gets the reason, in place of a lost connection.
func TestACommandWithoutTLSGetsTheReason(t *testing.T) {
	loaded, _ := loadTLS(t, listentest.NewAuthority(t), "")
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.TLS = loaded })
	start(t, s)
	const want = "-ERR this listener uses TLS; write rediss:// for the scheme, or --tls for redis-cli\r\n"
	for _, command := range []string{"*1\r\n$4\r\nPING", "*2\r\n$4\r\nECHO\r\n$9000\r\n" + strings.Repeat("x", 9000)} {
		client := respClient(t, s)
		if got := client.say(command); got != want {
			t.Errorf("%.20q: the answer %q, want %q", command, got, want)
		}
		if rest, err := client.in.ReadString('\n'); rest != "" || err == nil {
			t.Errorf("%.20q: further bytes %q, %v; want the end of the connection", command, rest, err)
		}
	}
}
