package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// TLSFiles holds the paths of a server's TLS files, all PEM.
type TLSFiles struct {
	Cert     string // certificate chain
	Key      string // private key
	ClientCA string // authorities of client certificates; "" = client certificates are ignored
}

// TLS is a server's certificate and the authorities of its clients.
type TLS struct {
	files  TLSFiles
	warn   func(error)
	config atomic.Pointer[tls.Config]
}

// LoadTLS reads the files. warn gets an error at each read of a key that other users can read;
// it may be nil.
func LoadTLS(files TLSFiles, warn func(error)) (*TLS, error) {
	if files.Cert == "" || files.Key == "" {
		return nil, errors.New("TLS needs a certificate and its key; set both")
	}
	t := &TLS{files: files, warn: warn}
	return t, t.Reload()
}

// Reload reads the files now. After an error the old value stays.
func (t *TLS) Reload() error {
	for _, path := range []string{t.files.Cert, t.files.Key, t.files.ClientCA} {
		info, err := os.Stat(path)
		isFirst := t.config.Load() == nil // it may be that of a pipe, such as <(command) of a shell
		if err == nil && !isFirst && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file; put one in its place", path)
		}
	}
	c, err := t.files.read()
	if err != nil {
		return err
	}
	t.config.Store(c)
	warnReadable(t.files.Key, t.warn)
	return nil
}

// AcceptsClientCerts reports whether clients may send certificates; false for nil.
func (t *TLS) AcceptsClientCerts() bool { return t != nil && t.files.ClientCA != "" }

// Config returns a listener's configuration for protocols in order of preference, such as
// "h2" and "http/1.1"; none for a protocol without an ALPN name.
//
// A client certificate is verified if the client sends one. The caller decides by
// Verified whether one is required: a platform's probes have none.
func (t *TLS) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := t.config.Load().Clone()
			c.NextProtos = protocols
			return c, nil
		},
	}
}

// verdict is the result of verifying a certificate against a set of authorities.
type verdict struct {
	by    *x509.CertPool
	until time.Time // the first expiry in the verified chain; zero = not verified
}

// Verified reports whether the client of a connection has sent a certificate that a
// current authority signed. Removing an authority also affects open connections, and so does
// the expiry of a certificate. state is nil without TLS. c caches the verdict until the
// authorities change, and may be nil.
func (t *TLS) Verified(c *Conn, state *tls.ConnectionState) bool {
	if state == nil || len(state.VerifiedChains) == 0 {
		return false
	}
	by := t.config.Load().ClientCAs
	if by == nil {
		return false
	}
	if c == nil {
		return time.Now().Before(verify(state, by))
	}
	v := c.verdict.Load()
	if v == nil || v.by != by {
		if v == nil || !v.by.Equal(by) {
			v = &verdict{until: verify(state, by)}
		}
		v = &verdict{by, v.until}
		c.verdict.Store(v)
	}
	return time.Now().Before(v.until)
}

// verify returns the instant until which a chain of the client's certificate to one of the
// authorities is valid, zero if there is none. Of several chains the one that lasts longest counts.
func verify(state *tls.ConnectionState, by *x509.CertPool) (until time.Time) {
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	chains, _ := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots:         by,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	byExpiry := func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }
	for _, chain := range chains {
		first := slices.MinFunc(chain, byExpiry)
		if first.NotAfter.After(until) {
			until = first.NotAfter
		}
	}
	return until
}

// read reads the files.
func (f TLSFiles) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if f.ClientCA == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, err
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no PEM certificate", f.ClientCA)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	c.SessionTicketsDisabled = true // a resumed session would outlive a removed authority
	return c, nil
}
