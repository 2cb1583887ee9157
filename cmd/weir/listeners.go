package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/server"
)

// listeners are the flags that say where weir serve listens, and who may talk there.
type listeners struct {
	listen, admin, socketMode     string
	resp                          string
	token, adminToken, gateSecret string // files
	tls                           listen.TLSFiles
	insecure                      bool
	connections, inFlight         int
	linger, drain                 time.Duration
}

// addFlags adds them to weir serve.
func (l *listeners) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.listen, "listen", "127.0.0.1:7070", "the `ADDRESS` to listen on, host:port or unix:/path; port 0 chooses a free one")
	f.StringVar(&l.resp, "resp-listen", "", "an `ADDRESS` for Redis clients, such as 127.0.0.1:7073; default: none")
	f.StringVar(&l.admin, "admin-listen", "",
		"an `ADDRESS` of its own for metrics, reload and forgetting keys; default: that of --listen, or 127.0.0.1:7072 if other machines can reach that")
	f.StringVar(&l.socketMode, "socket-mode", "0660", "who may connect to a unix socket, as an octal `MODE`")
	f.StringVar(&l.token, "token-file", "", "a `FILE` with the token callers must show as Authorization: Bearer; or set $WEIR_TOKEN")
	f.StringVar(&l.adminToken, "admin-token-file", "", "a `FILE` with the token operators must show; or set $WEIR_ADMIN_TOKEN")
	f.StringVar(&l.gateSecret, "gate-secret-file", "",
		"a `FILE` with the secret that proxies must show to gates as "+server.GateHeader+"; or set $WEIR_GATE_SECRET")
	f.StringVar(&l.tls.Cert, "tls-cert", "", "a `FILE` with the certificate, in PEM; read again when it changes")
	f.StringVar(&l.tls.Key, "tls-key", "", "a `FILE` with its private key, in PEM")
	f.StringVar(&l.tls.ClientCA, "tls-client-ca", "", "a `FILE` with the authorities whose client certificates do in place of a token, in PEM")
	f.BoolVar(&l.insecure, "insecure-listen", false, "listen where other machines can reach it though nothing asks who they are")
	f.IntVar(&l.connections, "max-connections", 10_000, "how many connections may be open at once; further ones wait")
	f.IntVar(&l.inFlight, "max-in-flight", 1000, "how many requests may wait for the store at once; further ones are answered with 503")
	f.DurationVar(&l.linger, "linger", 250*time.Millisecond, "how long requests are still taken after SIGTERM, while /readyz says no")
	f.DurationVar(&l.drain, "drain", 10*time.Second, "then, how long requests under way may take")
}

// configure reads what the flags name into c. reload reads it again.
func (l *listeners) configure(c *server.Config, log *slog.Logger) (reload func(), err error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	mode, err := strconv.ParseUint(l.socketMode, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return nil, usage("0660 lets the user and the group of weir connect", "--socket-mode must be an octal mode such as 0660, not %q", l.socketMode)
	}
	c.RESPListen = l.resp
	c.Listen, c.AdminListen, c.SocketMode, c.Insecure = l.listen, l.admin, fs.FileMode(mode), l.insecure
	c.Limits.Conns, c.Limits.InFlight, c.Limits.Drain = l.connections, l.inFlight, l.drain
	if c.Limits.Linger = l.linger; l.linger == 0 {
		c.Limits.Linger = -1
	}
	told := func(err error) {
		log.Error("what changed on disk cannot be used; what was read before stays", "error", err)
	}
	var all []interface{ Reload() error }
	for _, s := range []struct {
		flag, file, variable string
		to                   **listen.Secret
	}{
		{"--token-file", l.token, "WEIR_TOKEN", &c.Guards.Token},
		{"--admin-token-file", l.adminToken, "WEIR_ADMIN_TOKEN", &c.Guards.Admin},
		{"--gate-secret-file", l.gateSecret, "WEIR_GATE_SECRET", &c.Guards.Gate},
	} {
		if *s.to, err = secret(s.flag, s.file, s.variable, told); err != nil {
			return nil, err
		}
		if *s.to != nil {
			all = append(all, *s.to)
		}
	}
	if l.tls != (listen.TLSFiles{}) {
		if c.TLS, err = listen.LoadTLS(l.tls, told); err != nil {
			return nil, usage("--tls-cert and --tls-key belong together; --tls-client-ca needs both", "TLS: %w", err)
		}
		all = append(all, c.TLS)
	}
	return func() {
		for _, r := range all {
			if err := r.Reload(); err != nil {
				told(err)
			}
		}
	}, nil
}

// check refuses numbers that would stand for something else.
func (l *listeners) check() error {
	for flag, n := range map[string]int{"--max-connections": l.connections, "--max-in-flight": l.inFlight} {
		if n < 1 {
			return usage("leave it out for the default", "%s must be 1 or more, not %d", flag, n)
		}
	}
	if l.linger < 0 || l.drain <= 0 {
		return usage("such as --linger 5s --drain 10s", "--linger must be 0 or more, and --drain more than 0")
	}
	return nil
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
