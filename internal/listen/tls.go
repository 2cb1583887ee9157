package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles names the files of a server's TLS, all PEM.
type TLSFiles struct {
	Cert     string // the certificate, and those that lead to its root
	Key      string // its private key
	ClientCA string // the authorities of clients' certificates; "" = none are looked at
}

// TLS is a server's certificate and the authorities it believes about clients. It
// reads its files again within a second of the first connection after a change:
// a certificate that is renewed needs no restart.
type TLS struct {
	files  TLSFiles
	config *watched[tls.Config]
}

// LoadTLS reads the files. told gets the error of a later change that cannot be read,
// while the value before stays, and *WorldReadableError at each read of a key that others can
// read; it may be nil.
func LoadTLS(files TLSFiles, told func(error)) (*TLS, error) {
	if files.Cert == "" || files.Key == "" {
		return nil, errors.New("TLS needs a certificate and its key; set both")
	}
	paths := []string{files.Cert, files.Key}
	if files.ClientCA != "" {
		paths = append(paths, files.ClientCA)
	}
	f, err := newWatched(files.read, told, files.Key, paths...)
	if err != nil {
		return nil, err
	}
	return &TLS{files: files, config: f}, nil
}

// Reload reads the files now.
func (t *TLS) Reload() error { return t.config.reload() }

// AsksClients reports whether clients may show certificates.
func (t *TLS) AcceptsClientCerts() bool { return t.files.ClientCA != "" }

// Config returns what a listener needs, for the protocols in order of preference,
// such as "h2" and "http/1.1"; none for a protocol of no name.
//
// A client's certificate is verified if the client shows one; whether it had to
// is for the caller to decide by Verified: probes of a platform have none.
func (t *TLS) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := t.config.get().Clone()
			c.NextProtos = protocols
			return c, nil
		},
	}
}

// verdict is whether a certificate is good by a set of authorities.
type verdict struct {
	by   *x509.CertPool
	good bool
}

// Verified reports whether the client of a connection has shown a certificate that
// one of the authorities in force has signed. An authority that was removed ends the
// rights of connections that are open. state is nil without TLS; c keeps the verdict
// until the authorities change, and may be nil.
func (t *TLS) Verified(c *Conn, state *tls.ConnectionState) bool {
	if state == nil || len(state.VerifiedChains) == 0 {
		return false
	}
	by := t.config.get().ClientCAs
	if by == nil {
		return false
	}
	if c == nil {
		return verify(state, by)
	}
	v := c.verdict.Load()
	if v == nil || v.by != by {
		if v == nil || !v.by.Equal(by) {
			v = &verdict{good: verify(state, by)}
		}
		v = &verdict{by, v.good}
		c.verdict.Store(v)
	}
	return v.good
}

// verify reports whether one of the authorities has signed the certificate of a client.
func verify(state *tls.ConnectionState, by *x509.CertPool) bool {
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: by, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

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
		return nil, fmt.Errorf("%s holds no certificate in PEM", f.ClientCA)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	c.SessionTicketsDisabled = true // a resumed session would outlive an authority that was taken out
	return c, nil
}
