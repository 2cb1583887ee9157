package main

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
)

// secrets are the files with which callers authenticate.
type secrets struct {
	files  []interface{ Reload() error }
	failed func(error) // called for a change that is invalid
}

// read reads the files of the settings into c.
func (s *secrets) read(o *listenerOptions, table settings, c *server.Config) (err error) {
	for _, f := range []struct {
		name string
		to   **listen.Secret
	}{{"token-file", &c.Auth.Token}, {"admin-token-file", &c.Auth.Admin}, {"gate-secret-file", &c.Auth.Gate}} {
		setting := table.setting(f.name)
		path, text, err := setting.secret()
		switch {
		case err != nil || setting.source == "":
		case path != "":
			*f.to, err = listen.SecretFile(path, s.failed)
		default:
			*f.to, err = listen.SecretText(text)
		}
		if err != nil {
			return usage("", "%s: %w", setting.label(), err)
		}
		if *f.to != nil {
			s.files = append(s.files, *f.to)
		}
	}
	if o.tls == (listen.TLSFiles{}) {
		return nil
	}
	if c.TLS, err = listen.LoadTLS(o.tls, s.failed); err != nil {
		return usage("--tls-cert and --tls-key belong together; --tls-client-ca needs both", "TLS: %w", err)
	}
	s.files = append(s.files, c.TLS)
	return nil
}

// reload reads the files again.
func (s *secrets) reload() {
	for _, f := range s.files {
		if err := f.Reload(); err != nil {
			s.failed(err)
		}
	}
}

// secret returns the path of a file with a secret, or the secret from the environment.
func (s *setting) secret() (path, text string, err error) {
	path = s.value.String()
	text, set := os.LookupEnv(s.variables[0])
	if set && path != "" {
		return "", "", errors.New("$" + s.variables[0] + " is set as well; leave out one of them")
	}
	return path, text, nil
}

// sharedSecret returns a secret that several weir serve share, "" if none is set. Unlike
// the secrets of callers it is never replaced while weir runs.
func (s *setting) sharedSecret(log *slog.Logger) (string, error) {
	path, text, err := s.secret()
	if err == nil && path != "" {
		text, err = listen.ReadSecret(path, func(err error) { log.Warn("a secret is not protected", "why", err) })
	}
	if text = strings.TrimSpace(text); err == nil && s.source != "" && len(text) < listen.MinSecret {
		err = errors.New("the secret is shorter than 16 characters; openssl rand -hex 32 makes a good one")
	}
	if err != nil {
		return "", usage("", "%s: %w", s.label(), err)
	}
	return text, nil
}

// onHangup calls reload at each SIGHUP until stop is called.
func onHangup(reload func()) (stop func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range hup {
			reload()
		}
	}()
	return func() {
		signal.Stop(hup)
		close(hup)
		<-done
	}
}
