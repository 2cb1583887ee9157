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

// read reads the files of the flags into c.
func (s *secrets) read(o *listenerOptions, c *server.Config) (err error) {
	for _, f := range []struct {
		flag, file, variable string
		to                   **listen.Secret
	}{
		{"--token-file", o.token, "WEIR_TOKEN", &c.Auth.Token},
		{"--admin-token-file", o.adminToken, "WEIR_ADMIN_TOKEN", &c.Auth.Admin},
		{"--gate-secret-file", o.gateSecret, "WEIR_GATE_SECRET", &c.Auth.Gate},
	} {
		text, source, err := secretSource(f.flag, f.file, f.variable)
		switch {
		case err != nil || source == "":
		case f.file != "":
			*f.to, err = listen.SecretFile(f.file, s.failed)
		default:
			*f.to, err = listen.SecretText(text)
		}
		if err != nil {
			return usage("", "%s: %w", source, err)
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

// secretSource returns the source of a secret, a flag or a variable, and the value
// of the variable. source is "" if neither is set.
func secretSource(flag, file, variable string) (text, source string, err error) {
	text, set := os.LookupEnv(variable)
	switch {
	case file != "" && set:
		return "", flag, errors.New("$" + variable + " is set as well; leave out one of them")
	case file != "":
		return "", flag, nil
	case set:
		return text, "$" + variable, nil
	}
	return "", "", nil
}

// reservationVariable is the alternative to --reservation-secret-file.
const reservationVariable = "WEIR_RESERVATION_SECRET"

// sharedSecret returns a secret that several weir serve share, "" if none is set. Unlike
// the secrets of callers it is never replaced while weir runs.
func sharedSecret(flag, file, variable string, log *slog.Logger) (string, error) {
	text, source, err := secretSource(flag, file, variable)
	if err == nil && file != "" {
		text, err = listen.ReadSecret(file, func(err error) { log.Warn("a secret is not protected", "why", err) })
	}
	if text = strings.TrimSpace(text); err == nil && source != "" && len(text) < listen.MinSecret {
		err = errors.New("the secret is shorter than 16 characters; openssl rand -hex 32 makes a good one")
	}
	if err != nil {
		return "", usage("", "%s: %w", source, err)
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
