package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/server"
)

// guards are the files that say who may talk to weir serve.
type guards struct {
	all  []interface{ Reload() error }
	told func(error) // hears of a change that cannot be used
}

// read reads the files that the flags name into c.
func (g *guards) read(l *listeners, c *server.Config) (err error) {
	for _, s := range []struct {
		flag, file, variable string
		to                   **listen.Secret
	}{
		{"--token-file", l.token, "WEIR_TOKEN", &c.Guards.Token},
		{"--admin-token-file", l.adminToken, "WEIR_ADMIN_TOKEN", &c.Guards.Admin},
		{"--gate-secret-file", l.gateSecret, "WEIR_GATE_SECRET", &c.Guards.Gate},
	} {
		if *s.to, err = secret(s.flag, s.file, s.variable, g.told); err != nil {
			return err
		}
		if *s.to != nil {
			g.all = append(g.all, *s.to)
		}
	}
	if l.tls == (listen.TLSFiles{}) {
		return nil
	}
	if c.TLS, err = listen.LoadTLS(l.tls, g.told); err != nil {
		return usage("--tls-cert and --tls-key belong together; --tls-client-ca needs both", "TLS: %w", err)
	}
	g.all = append(g.all, c.TLS)
	return nil
}

// reload reads them again.
func (g *guards) reload() {
	for _, r := range g.all {
		if err := r.Reload(); err != nil {
			g.told(err)
		}
	}
}

// secret reads a secret from a file or from the environment; nil if neither is set.
func secret(flag, file, variable string, told func(error)) (s *listen.Secret, err error) {
	text, set := os.LookupEnv(variable)
	switch {
	case file == "" && !set:
		return nil, nil
	case file != "" && set:
		err = errors.New("$" + variable + " is set as well; leave one of them out")
	case file != "":
		s, err = listen.SecretFile(file, told)
	default:
		flag = "$" + variable
		s, err = listen.SecretText(text)
	}
	if err != nil {
		return nil, usage("", "%s: %w", flag, err)
	}
	return s, nil
}

// atHangup calls reload at every SIGHUP until stop is called.
func atHangup(reload func()) (stop func()) {
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
