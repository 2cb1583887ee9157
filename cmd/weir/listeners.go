package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
)

// listenerOptions are the flags for the addresses of weir serve and for the access
// to them. Further ones are fields of server.Config.
type listenerOptions struct {
	socketMode                    string
	token, adminToken, gateSecret string // files
	tls                           listen.TLSFiles
	hosts                         []string
}

// addFlags adds the flags of o and c to weir serve, in three groups.
func (o *listenerOptions) addFlags(cmd *cobra.Command, c *server.Config) {
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", "127.0.0.1:7070", "the `ADDRESS` of the HTTP listener, host:port or unix:/path; port 0 chooses a free port")
	f.StringVar(&c.AdminListen, "admin-listen", "",
		"a separate `ADDRESS` for metrics, reloads and resets of keys; default: that of --listen, or 127.0.0.1:7072 if other machines can reach --listen")
	f.StringVar(&c.RESPListen, "resp-listen", "", "the `ADDRESS` for Redis clients, such as 127.0.0.1:7073; default: none")
	f.StringVar(&o.socketMode, "socket-mode", "0660", "the permissions of unix sockets, as an octal `MODE`")
	group(cmd, "Listeners:")
	f.StringVar(&o.token, "token-file", "", "a `FILE` with the token that callers must send as Authorization: Bearer; or set $WEIR_TOKEN")
	f.StringVar(&o.adminToken, "admin-token-file", "", "a `FILE` with the token that operators must send; or set $WEIR_ADMIN_TOKEN")
	f.StringVar(&o.gateSecret, "gate-secret-file", "",
		"a `FILE` with the secret that proxies must send to gates as "+httpapi.GateHeader+"; without --token-file it closes all other calls; or set $WEIR_GATE_SECRET")
	f.StringVar(&c.GateID, "gate-id-header", "",
		"the header field `NAME` in which proxies send an idempotency key to gates; the proxy must set it and discard that of its clients")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "a `FILE` with the certificate, in PEM; weir reads it again when it changes")
	f.StringVar(&o.tls.Key, "tls-key", "", "a `FILE` with the certificate's private key, in PEM")
	f.StringVar(&o.tls.ClientCA, "tls-client-ca", "", "a `FILE` with authorities, in PEM; a client certificate of theirs replaces the token")
	f.StringArrayVar(&o.hosts, "host", nil,
		"a host `NAME` besides localhost that requests to a listener without authentication may use; repeat it for more names")
	f.BoolVar(&c.Insecure, "insecure-listen", false, "allow listeners that other machines can reach without a token or a certificate")
	group(cmd, "Access:")
	f.IntVar(&c.Limits.Conns, "max-connections", 10_000, "the most open connections of each listener; further callers get 503, probes are still answered")
	f.IntVar(&c.Limits.PerAddress, "max-connections-per-address", 0,
		"the most of them for one client address before it has authenticated, or at all if nothing is required; default: a quarter of --max-connections, without bound on loopback if nothing is required")
	f.IntVar(&c.Limits.InFlight, "max-in-flight", 1000, "the most requests that wait for the store at once; further ones get 503")
	f.DurationVar(&c.Limits.Linger, "linger", 250*time.Millisecond, "after SIGTERM, accept requests for so long while /readyz reports 503")
	f.DurationVar(&c.Limits.Drain, "drain", 10*time.Second, "after that, wait so long for requests in flight")
	group(cmd, "Load and shutdown:")
}

// configure reads the files of the flags and sets the fields of c. reload reads the
// files again.
func (o *listenerOptions) configure(c *server.Config, log *slog.Logger) (reload func(), err error) {
	if err := o.check(c); err != nil {
		return nil, err
	}
	if c.Hosts, err = listen.ParseNames(o.hosts...); err != nil {
		return nil, usage("", "--host: %w", err)
	}
	if c.Limits.Linger == 0 {
		c.Limits.Linger = -1
	}
	s := secrets{failed: func(err error) {
		if loose := new(listen.WorldReadableError); errors.As(err, &loose) {
			log.Warn("a secret is not protected", "why", err)
			return
		}
		log.Error("a changed secret or certificate is invalid; the previous one stays", "error", err)
	}}
	if err := s.read(o, c); err != nil {
		return nil, err
	}
	return s.reload, nil
}

// check rejects numbers out of range and sets the socket mode.
func (o *listenerOptions) check(c *server.Config) error {
	mode, err := strconv.ParseUint(o.socketMode, 8, 32)
	c.SocketMode = fs.FileMode(mode)
	switch {
	case err != nil || mode == 0 || mode > 0o777:
		return usage("with 0660 the user and the group of weir can connect", "--socket-mode must be an octal mode such as 0660, not %q", o.socketMode)
	case c.Limits.Conns < 1:
		return usage("leave it out for the default", "--max-connections must be 1 or more, not %d", c.Limits.Conns)
	case c.Limits.PerAddress < 0:
		return usage("leave it out for the default", "--max-connections-per-address must be 1 or more, not %d", c.Limits.PerAddress)
	case c.Limits.InFlight < 1:
		return usage("leave it out for the default", "--max-in-flight must be 1 or more, not %d", c.Limits.InFlight)
	case c.Limits.Linger < 0 || c.Limits.Drain <= 0:
		return usage("write --linger 5s --drain 10s, for example", "--linger must be 0 or more, and --drain more than 0")
	}
	return nil
}
