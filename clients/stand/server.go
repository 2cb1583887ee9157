package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weirlimit/weir/internal/testkit/program"
)

// options are those of one server.
type options struct {
	Policies string   `json:"policies"` // a policy file; "" = the demonstration policies
	Token    string   `json:"token"`    // callers must send it; "" = none
	TLS      bool     `json:"tls"`      // on both listeners
	Unix     bool     `json:"unix"`     // Redis clients use a socket file, without a proxy
	Flags    []string `json:"flags"`    // further flags of weir serve
}

// A server is a running weir. Its addresses are those of proxies.
type server struct {
	ID     int       `json:"id"`
	RESP   string    `json:"resp"`         // host:port, or the path of a socket
	HTTP   string    `json:"http"`         // host:port
	Direct addresses `json:"direct"`       // without proxies
	CA     string    `json:"ca,omitempty"` // the authority of the certificate, in PEM

	command *exec.Cmd
	proxies []*proxy
}

type addresses struct {
	RESP string `json:"resp"`
	HTTP string `json:"http"`
}

var (
	httpListener = regexp.MustCompile(`(?m)^weir listens on +https?://(\S+)$`)
	respListener = regexp.MustCompile(`(?m)^  Redis clients +(?:unix:)?(\S+)$`)
)

// startServer starts weir with the files of the options in a directory of its own.
func startServer(weir, dir string, id int, o options) (s *server, err error) {
	s = &server{ID: id}
	dir = filepath.Join(dir, fmt.Sprint(id))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	args, err := s.arguments(dir, o)
	if err != nil {
		return nil, err
	}
	s.command = exec.Command(weir, args...)
	running, err := program.Start(s.command)
	if err != nil {
		return nil, err
	}
	started := s // a return with an error sets s to nil
	defer func() {
		if err != nil {
			started.stop()
		}
	}()
	if err := running.Await(func(out string) bool { return strings.Contains(out, "\n  look ") }); err != nil {
		return nil, err
	}
	addressOf := func(listener *regexp.Regexp) string {
		if m := listener.FindStringSubmatch(running.Output()); m != nil {
			return m[1]
		}
		return ""
	}
	s.Direct = addresses{RESP: addressOf(respListener), HTTP: addressOf(httpListener)}
	if s.HTTP, err = s.front(s.Direct.HTTP); err != nil {
		return nil, err
	}
	s.RESP = s.Direct.RESP
	if !o.Unix {
		s.RESP, err = s.front(s.Direct.RESP)
	}
	return s, err
}

// arguments writes the files of the options, and returns the arguments of weir.
func (s *server) arguments(dir string, o options) (args []string, err error) {
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) error { return os.WriteFile(path(name), []byte(text), 0o600) }
	resp := "127.0.0.1:0"
	if o.Unix {
		resp = "unix:" + path("resp.sock")
	}
	args = []string{"serve", "--listen", "127.0.0.1:0", "--resp-listen", resp}
	if o.Policies != "" {
		args = append(args, "--policies", path("weir.yaml"))
		if err := write("weir.yaml", o.Policies); err != nil {
			return nil, err
		}
	}
	if o.Token != "" {
		args = append(args, "--token-file", path("token"))
		if err := write("token", o.Token); err != nil {
			return nil, err
		}
	}
	if o.TLS {
		args = append(args, "--tls-cert", path("cert.pem"), "--tls-key", path("key.pem"))
		cert, key, err := newCertificate()
		if err != nil {
			return nil, err
		}
		s.CA = cert
		if err := write("cert.pem", cert); err != nil {
			return nil, err
		}
		if err := write("key.pem", key); err != nil {
			return nil, err
		}
	}
	return append(args, o.Flags...), nil
}

// front puts a proxy before a listener, and returns its address.
func (s *server) front(target string) (string, error) {
	p, err := newProxy(target)
	if err != nil {
		return "", err
	}
	s.proxies = append(s.proxies, p)
	return p.address, nil
}

// fail sets the fault of both proxies.
func (s *server) fail(f fault) error {
	if err := f.check(); err != nil {
		return err
	}
	for _, p := range s.proxies {
		if err := p.set(f); err != nil {
			return err
		}
	}
	return nil
}

// stop kills weir and ends the proxies.
func (s *server) stop() {
	for _, p := range s.proxies {
		p.close()
	}
	s.command.Process.Kill()
	s.command.Wait()
}
