package server

import (
	"context"
	"net"
	"net/http"

	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/weirhttp"
)

// bounds returns how a listener with so many slots bounds its connections. private is
// whether callers must show something there.
//
// Where other machines need show nothing, all connections of an address count. On
// loopback they would be those of one proxy, so there is no bound unless
// Limits.PerAddress is set.
func (s *Server) bounds(address listen.Address, conns int, private bool) listen.Config {
	c := listen.Config{Address: address, Mode: s.config.SocketMode, Conns: conns, Spare: s.portions.spare, PerAddress: s.config.Limits.PerAddress}
	if c.PerAddress == 0 && (private || !address.Local()) {
		c.PerAddress = max(conns/4, spareConns)
	}
	if private {
		c.AdmitWithin = s.config.Limits.Prove
	}
	return c
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// withConn makes the connection known to the requests on it.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, listen.ConnOf(c))
}

// connOf returns the connection of a request, nil if it is unknown.
func connOf(r *http.Request) *listen.Conn {
	c, _ := r.Context().Value(connKey{}).(*listen.Conn)
	return c
}

var closes = []string{"close"}

// admit gives the connection of a caller that may call a slot of its own. It reports
// false, and has answered, if there is none.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) bool {
	if connOf(r).Admit() {
		return true
	}
	s.room.shed.Add(1)
	strict(w.Header())
	w.Header()["Connection"] = closes
	w.Header()["Retry-After"] = aSecond
	weirhttp.WriteError(w, http.StatusServiceUnavailable,
		"no decision: as many connections are open as may be; nothing was charged, try again in a second, or raise --max-connections")
	return false
}

// closeAfterProbe closes the connection of a probe after its answer, if its caller has shown
// nothing where callers must: it would hold a slot.
func (f *face) closeAfterProbe(w http.ResponseWriter, r *http.Request, s *Server) {
	if f.private && !connOf(r).Admitted() && !s.knows(r, f) {
		w.Header()["Connection"] = closes
	}
}
