//go:build unix

package server

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/internal/testkit/listentest"
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
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair := server.Issue(t, "weir.test")
	files := listen.TLSFiles{Cert: write("cert", pair.Cert), Key: write("key", pair.Key)}
	if trusted != "" {
		files.ClientCA = write("ca", trusted)
	}
	loaded, err := listen.LoadTLS(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return loaded, func(pem string) {
		write("ca", pem)
		if err := loaded.Reload(); err != nil {
			t.Fatal(err)
		}
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
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("sockets that are still there: %v, %v", left, err)
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
	eventually(t, "the main listener takes no requests", func() bool {
		c, err := net.Dial("tcp", s.Addr())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	for path, want := range map[string]int{"/metrics": 200, "/livez": 200, "/readyz": 503} {
		if got, _ := status(t, nil, "http://"+s.admin.addr()+path); got != want {
			t.Errorf("%s while draining: status %d, want %d", path, got, want)
		}
	}
	close(e.release)
	if err := <-answered; err != nil {
		t.Errorf("the last request: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
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
			if err := s.Serve(t.Context()); err == nil {
				t.Error("Serve on a taken port: no error")
			}
		} else if c, err := net.Dial("tcp", s.Addr()); err == nil {
			c.Close()
			t.Errorf("%s: the main listener is open all the same", name)
		}
	}
}
