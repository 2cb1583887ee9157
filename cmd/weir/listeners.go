package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/server"
)

// listeners are the flags for the addresses of weir serve and the rights of callers.
type listeners struct {
	listen, admin, socketMode     string
	resp                          string
	token, adminToken, gateSecret string // files
	tls                           listen.TLSFiles
	gateID                        string
	hosts                         []string
	insecure                      bool
	connections, perAddress       int
	inFlight                      int
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
		"a `FILE` with the secret that proxies must show to gates as "+server.GateHeader+"; without --token-file it closes all other calls; or set $WEIR_GATE_SECRET")
	f.StringVar(&l.gateID, "gate-id-header", "",
		"the header field `NAME` in which proxies name the operation a gate is asked about, so that asking again charges nothing; it must be the proxy that sets it, not its clients")
	f.StringVar(&l.tls.Cert, "tls-cert", "", "a `FILE` with the certificate, in PEM; read again when it changes")
	f.StringVar(&l.tls.Key, "tls-key", "", "a `FILE` with its private key, in PEM")
	f.StringVar(&l.tls.ClientCA, "tls-client-ca", "", "a `FILE` with the authorities whose client certificates do in place of a token, in PEM")
	f.StringArrayVar(&l.hosts, "host", nil,
		"a `NAME` besides localhost by which callers may call a listener that asks for no token; again for another")
	f.BoolVar(&l.insecure, "insecure-listen", false, "leave open, also to other machines, the calls that no token and no certificate protects")
	f.IntVar(&l.connections, "max-connections", 10_000, "how many connections of callers may be open at once on a listener; further callers get 503, probes are answered still")
	f.IntVar(&l.perAddress, "max-connections-per-address", 0,
		"how many of them one client address may have before it has shown what is required, or at all where nothing is; default: a quarter of --max-connections, no bound on loopback where nothing is required")
	f.IntVar(&l.inFlight, "max-in-flight", 1000, "how many requests may wait for the store at once; further ones are answered with 503")
	f.DurationVar(&l.linger, "linger", 250*time.Millisecond, "how long requests are still taken after SIGTERM, while /readyz says no")
	f.DurationVar(&l.drain, "drain", 10*time.Second, "then, how long requests under way may take")
}

// configure reads what the flags name into c. reload reads it again.
func (l *listeners) configure(c *server.Config, log *slog.Logger) (reload func(), err error) {
	mode, err := l.check()
	if err != nil {
		return nil, err
	}
	if c.Hosts, err = listen.ParseNames(l.hosts...); err != nil {
		return nil, usage("", "--host: %w", err)
	}
	c.RESPListen, c.GateID = l.resp, l.gateID
	c.Listen, c.AdminListen, c.SocketMode, c.Insecure = l.listen, l.admin, mode, l.insecure
	c.Limits.Conns, c.Limits.PerAddress = l.connections, l.perAddress
	c.Limits.InFlight, c.Limits.Drain = l.inFlight, l.drain
	if c.Limits.Linger = l.linger; l.linger == 0 {
		c.Limits.Linger = -1
	}
	g := guards{told: func(err error) {
		if loose := new(listen.WorldReadableError); errors.As(err, &loose) {
			log.Warn("a secret is not protected", "why", err)
			return
		}
		log.Error("what changed on disk cannot be used; what was read before stays", "error", err)
	}}
	if err := g.read(l, c); err != nil {
		return nil, err
	}
	return g.reload, nil
}

// check refuses numbers that would stand for something else, and reads the mode.
func (l *listeners) check() (fs.FileMode, error) {
	mode, err := strconv.ParseUint(l.socketMode, 8, 32)
	switch {
	case err != nil || mode == 0 || mode > 0o777:
		return 0, usage("0660 lets the user and the group of weir connect", "--socket-mode must be an octal mode such as 0660, not %q", l.socketMode)
	case l.connections < 1:
		return 0, usage("leave it out for the default", "--max-connections must be 1 or more, not %d", l.connections)
	case l.perAddress < 0:
		return 0, usage("leave it out for the default", "--max-connections-per-address must be 1 or more, not %d", l.perAddress)
	case l.inFlight < 1:
		return 0, usage("leave it out for the default", "--max-in-flight must be 1 or more, not %d", l.inFlight)
	case l.linger < 0 || l.drain <= 0:
		return 0, usage("such as --linger 5s --drain 10s", "--linger must be 0 or more, and --drain more than 0")
	}
	return fs.FileMode(mode), nil
}
