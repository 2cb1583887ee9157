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
	"github.com/weirlimit/weir/internal/server/httpapi"
)

// listenerOptions are the flags for the addresses of weir serve and for the access
// to them.
type listenerOptions struct {
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

// addFlags adds the flags to weir serve, in three groups.
func (o *listenerOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:7070", "the `ADDRESS` of the HTTP listener, host:port or unix:/path; port 0 chooses a free port")
	f.StringVar(&o.admin, "admin-listen", "",
		"a separate `ADDRESS` for metrics, reloads and resets of keys; default: that of --listen, or 127.0.0.1:7072 if other machines can reach --listen")
	f.StringVar(&o.resp, "resp-listen", "", "the `ADDRESS` for Redis clients, such as 127.0.0.1:7073; default: none")
	f.StringVar(&o.socketMode, "socket-mode", "0660", "the permissions of unix sockets, as an octal `MODE`")
	group(cmd, "Listeners:")
	f.StringVar(&o.token, "token-file", "", "a `FILE` with the token that callers must send as Authorization: Bearer; or set $WEIR_TOKEN")
	f.StringVar(&o.adminToken, "admin-token-file", "", "a `FILE` with the token that operators must send; or set $WEIR_ADMIN_TOKEN")
	f.StringVar(&o.gateSecret, "gate-secret-file", "",
		"a `FILE` with the secret that proxies must send to gates as "+httpapi.GateHeader+"; without --token-file it closes all other calls; or set $WEIR_GATE_SECRET")
	f.StringVar(&o.gateID, "gate-id-header", "",
		"the header field `NAME` in which proxies send an idempotency key to gates; the proxy must set it and discard that of its clients")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "a `FILE` with the certificate, in PEM; weir reads it again when it changes")
	f.StringVar(&o.tls.Key, "tls-key", "", "a `FILE` with the certificate's private key, in PEM")
	f.StringVar(&o.tls.ClientCA, "tls-client-ca", "", "a `FILE` with authorities, in PEM; a client certificate of theirs replaces the token")
	f.StringArrayVar(&o.hosts, "host", nil,
		"a host `NAME` besides localhost that requests to a listener without authentication may use; repeat it for more names")
	f.BoolVar(&o.insecure, "insecure-listen", false, "allow listeners that other machines can reach without a token or a certificate")
	group(cmd, "Access:")
	f.IntVar(&o.connections, "max-connections", 10_000, "the most open connections of each listener; further callers get 503, probes are still answered")
	f.IntVar(&o.perAddress, "max-connections-per-address", 0,
		"the most of them for one client address before it has authenticated, or at all if nothing is required; default: a quarter of --max-connections, without bound on loopback if nothing is required")
	f.IntVar(&o.inFlight, "max-in-flight", 1000, "the most requests that wait for the store at once; further ones get 503")
	f.DurationVar(&o.linger, "linger", 250*time.Millisecond, "after SIGTERM, accept requests for so long while /readyz reports 503")
	f.DurationVar(&o.drain, "drain", 10*time.Second, "after that, wait so long for requests in flight")
	group(cmd, "Load and shutdown:")
}

// configure reads the files of the flags and sets the fields of c. reload reads the
// files again.
func (o *listenerOptions) configure(c *server.Config, log *slog.Logger) (reload func(), err error) {
	mode, err := o.check()
	if err != nil {
		return nil, err
	}
	if c.Hosts, err = listen.ParseNames(o.hosts...); err != nil {
		return nil, usage("", "--host: %w", err)
	}
	c.RESPListen, c.GateID = o.resp, o.gateID
	c.Listen, c.AdminListen, c.SocketMode, c.Insecure = o.listen, o.admin, mode, o.insecure
	c.Limits.Conns, c.Limits.PerAddress = o.connections, o.perAddress
	c.Limits.InFlight, c.Limits.Drain = o.inFlight, o.drain
	if c.Limits.Linger = o.linger; o.linger == 0 {
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

// check rejects numbers out of range and returns the socket mode.
func (o *listenerOptions) check() (fs.FileMode, error) {
	mode, err := strconv.ParseUint(o.socketMode, 8, 32)
	switch {
	case err != nil || mode == 0 || mode > 0o777:
		return 0, usage("with 0660 the user and the group of weir can connect", "--socket-mode must be an octal mode such as 0660, not %q", o.socketMode)
	case o.connections < 1:
		return 0, usage("leave it out for the default", "--max-connections must be 1 or more, not %d", o.connections)
	case o.perAddress < 0:
		return 0, usage("leave it out for the default", "--max-connections-per-address must be 1 or more, not %d", o.perAddress)
	case o.inFlight < 1:
		return 0, usage("leave it out for the default", "--max-in-flight must be 1 or more, not %d", o.inFlight)
	case o.linger < 0 || o.drain <= 0:
		return 0, usage("write --linger 5s --drain 10s, for example", "--linger must be 0 or more, and --drain more than 0")
	}
	return fs.FileMode(mode), nil
}
