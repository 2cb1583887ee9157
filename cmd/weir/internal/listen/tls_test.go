package listen

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// shake connects a client to a server, and returns the connection state of each side.
func shake(s *tls.Config, client *tls.Config) (server, there tls.ConnectionState, err error) {
	a, b := net.Pipe()
	c, d := tls.Server(a, s), tls.Client(b, client)
	failed := make(chan error, 1)
	go func() {
		err := d.Handshake()
		if err == nil {
			_, err = d.Read(make([]byte, 1)) // TLS 1.3 reports a rejected certificate only here
		}
		b.Close()
		failed <- err
	}()
	err = c.Handshake()
	if err == nil {
		c.Write([]byte("x"))
	}
	a.Close()
	if other := <-failed; err == nil && other != io.EOF {
		err = other
	}
	return c.ConnectionState(), d.ConnectionState(), err
}

// tlsFiles writes a certificate of weir.test, its key, and their authority.
func tlsFiles(t *testing.T, a *listentest.Authority) TLSFiles {
	t.Helper()
	dir := t.TempDir()
	files := TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca")}
	pair := a.Issue(t, "weir.test")
	write(t, files.Cert, pair.Cert)
	write(t, files.Key, pair.Key)
	write(t, files.ClientCA, a.PEM)
	return files
}

func TestTLSReloads(t *testing.T) {
	first, second := listentest.NewAuthority(t), listentest.NewAuthority(t)
	files := tlsFiles(t, first)
	s, err := LoadTLS(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := s.Config("h2", "http/1.1")
	client := func(a *listentest.Authority) *tls.Config {
		return &tls.Config{ServerName: "weir.test", RootCAs: a.Pool(), NextProtos: []string{"http/1.1"}}
	}
	_, there, err := shake(config, client(first))
	if err != nil || there.NegotiatedProtocol != "http/1.1" || there.Version != tls.VersionTLS13 {
		t.Fatalf("the first certificate: %v, protocol %q", err, there.NegotiatedProtocol)
	}
	pair := second.Issue(t, "weir.test")
	write(t, files.Cert, pair.Cert)
	reloaded := s.Reload()
	if _, _, err := shake(config, client(first)); err != nil || reloaded == nil {
		t.Errorf("a certificate without its key: %v, Reload %v; want the old one, and the error", err, reloaded)
	}
	write(t, files.Key, pair.Key)
	reloaded = s.Reload()
	if _, _, err := shake(config, client(second)); err != nil || reloaded != nil {
		t.Errorf("the second certificate: %v, Reload %v", err, reloaded)
	}
	if _, _, err := shake(config, client(first)); err == nil {
		t.Error("the first certificate is still sent")
	}
	if _, _, err := shake(config, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	for _, path := range []string{files.Cert, files.Key, files.ClientCA} { // a pipe may never end
		must.Do(t, os.Rename(path, path+".old"))
		must.Do(t, exec.Command("mkfifo", path).Run())
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), path+" is not a regular file") {
			t.Errorf("a pipe in place of %s: %v", path, err)
		}
		must.Do(t, os.Rename(path+".old", path))
	}
}

func TestClientCertificates(t *testing.T) {
	ours, theirs := listentest.NewAuthority(t), listentest.NewAuthority(t)
	s, err := LoadTLS(tlsFiles(t, ours), nil)
	if err != nil || !s.AcceptsClientCerts() {
		t.Fatal(err, s.AcceptsClientCerts())
	}
	for _, c := range []struct {
		name     string
		by       *listentest.Authority
		verified bool
		fails    bool
	}{{"none", nil, false, false}, {"ours", ours, true, false}, {"another's", theirs, false, true}} {
		config := &tls.Config{ServerName: "weir.test", RootCAs: ours.Pool()}
		if c.by != nil {
			pair := c.by.Issue(t, "client").TLS(t)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &pair, nil // also one that the server does not accept
			}
		}
		state, _, err := shake(s.Config(), config)
		if got := s.Verified(nil, &state); (err != nil) != c.fails || got != c.verified {
			t.Errorf("certificate %s: %v, verified %t; want failure %t, verified %t", c.name, err, got, c.fails, c.verified)
		}
	}
	if s.Verified(nil, nil) {
		t.Error("without TLS a client is verified")
	}
}

// TestClientCertificatesExpire: a certificate that expires on an open connection is not
// verified from then on, with a cached verdict or without one.
func TestClientCertificatesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := listentest.NewAuthority(t)
		s, err := LoadTLS(tlsFiles(t, a), nil)
		if err != nil {
			t.Fatal(err)
		}
		client := a.Issue(t, "client").TLS(t)
		state, _, err := shake(s.Config(), &tls.Config{ServerName: "weir.test", RootCAs: a.Pool(), Certificates: []tls.Certificate{client}})
		must.Do(t, err)
		expect := func(when string, c *Conn, want bool) {
			t.Helper()
			if got := s.Verified(c, &state); got != want {
				t.Errorf("%s, cached %t: verified %t, want %t", when, c != nil, got, want)
			}
		}
		c := new(Conn)
		expect("at first", c, true)
		left := time.Until(state.PeerCertificates[0].NotAfter)
		for left > time.Second { // in steps: a duration is shorter than three centuries
			step := min(left-time.Second, 100*365*24*time.Hour)
			time.Sleep(step)
			left -= step
		}
		expect("before it expires", c, true)
		expect("before it expires", nil, true)
		time.Sleep(2 * time.Second)
		expect("after it has expired", c, false)
		expect("after it has expired", nil, false)
	})
}

func TestBadTLSFiles(t *testing.T) {
	files, empty := tlsFiles(t, listentest.NewAuthority(t)), filepath.Join(t.TempDir(), "empty")
	cert, key := files.Cert, files.Key
	write(t, empty, "")
	for _, c := range []struct {
		files TLSFiles
		want  string
	}{
		{TLSFiles{Cert: cert}, "set both"},
		{TLSFiles{Cert: cert, Key: cert}, "certificate " + cert},
		{TLSFiles{Cert: cert, Key: empty + "none"}, "no such file"},
		{TLSFiles{Cert: cert, Key: key, ClientCA: empty}, "holds no PEM certificate"},
	} {
		if _, err := LoadTLS(c.files, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want an error with %q", c.files, err, c.want)
		}
	}
}

// TestWorldReadableKeyIsReported: of the TLS files only the private key is a secret.
func TestWorldReadableKeyIsReported(t *testing.T) {
	files := tlsFiles(t, listentest.NewAuthority(t))
	for _, c := range []struct {
		readable string
		want     []string
	}{{files.Cert, nil}, {files.Key, []string{"every user of this machine can read the secret in " + files.Key + "; chmod o= " + files.Key}}} {
		must.Do(t, os.Chmod(c.readable, 0o644))
		var reported []string
		if _, err := LoadTLS(files, func(err error) { reported = append(reported, err.Error()) }); err != nil || !slices.Equal(reported, c.want) {
			t.Errorf("%s: reported %q, %v; want %q", c.readable, reported, err, c.want)
		}
	}
}
