package main

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
)

// listenerOptions are the settings for the addresses of weir serve and for the access
// to them. Further ones are fields of server.Config.
type listenerOptions struct {
	socketMode                    mode
	token, adminToken, gateSecret string // files
	tls                           listen.TLSFiles
	hosts                         hostNames
}

// configure reads the files of the settings and sets the fields of c. reload reads the
// files again.
func (o *listenerOptions) configure(c *server.Config, table settings, log *slog.Logger) (reload func(), err error) {
	c.SocketMode = fs.FileMode(o.socketMode)
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
	if err := s.read(o, table, c); err != nil {
		return nil, err
	}
	return s.reload, nil
}
