package httpapi

import (
	"context"
	"net"
	"net/http"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// Auth holds the secrets of callers. Without any, calls need none, and the server listens
// only where no other machine can connect. Gate alone opens only gates.
type Auth struct {
	Token *listen.Secret // opens decisions and gates, as Authorization: Bearer
	Gate  *listen.Secret // opens gates only, as GateHeader
	Admin *listen.Secret // opens the calls of operators, as Authorization: Bearer; default: Token, on a shared listener
}

// GateHeader is the header field with the gate secret. Authorization is no alternative:
// proxies forward that of their own clients.
const GateHeader = "Weir-Gate-Secret"

// role is a group of callers.
type role uint8

const (
	operators role = iota // metrics, reload, resets
	decisions             // programs
	gates                 // proxies
	probes                // health checks; they need no secret
)

// access is the result of authenticating a request.
type access uint8

const (
	closed access = iota // the secret or certificate is missing or wrong
	misled               // none is needed here, and a page in a browser may have sent the request
	open
)

// accessOf authenticates a request of a connection for a role on a listener. c is nil if the
// connection is unknown.
//
// A page in a browser may send a request under a name of its own site that resolves to this
// machine (DNS rebinding). Where callers must authenticate that is impossible: such a page has
// no secret. Gates are exempt: proxies send arbitrary names, such as their clients'. A page can
// only charge keys there, as it can with a plain link; the gate secret prevents that.
func (a *API) accessOf(r *http.Request, c *listen.Conn, as role, on *Endpoint) access {
	bearer := func(secret *listen.Secret) access {
		if secret.Matches(listen.Bearer(r.Header.Get("Authorization"))) {
			return open
		}
		return closed
	}
	switch {
	case as == probes:
		return open
	case as == operators && a.Auth.Admin != nil:
		return bearer(a.Auth.Admin)
	case as == gates && a.Auth.Gate != nil:
		if a.Auth.Gate.Matches(r.Header.Get(GateHeader)) {
			return open
		}
		if a.Auth.Token == nil && !on.Clients {
			return closed
		}
	}
	switch {
	case as == operators && on.Admin && on.Local: // no secret is needed
	case on.Clients && a.TLS.Verified(c, r.TLS):
		return open
	case a.Auth.Token != nil:
		return bearer(a.Auth.Token)
	case on.Clients || a.GatesOnly:
		return closed
	}
	if as != gates && on.Names != nil && !on.Names.Has(r.Host) {
		return misled
	}
	return open
}

// mainAccessOf authenticates a request for the main calls of its listener.
func (a *API) mainAccessOf(r *http.Request, c *listen.Conn, on *Endpoint) access {
	if on.Admin {
		return a.accessOf(r, c, operators, on)
	}
	return a.accessOf(r, c, decisions, on)
}

// IsPrivate reports whether callers of a listener must authenticate.
func (a *API) IsPrivate(on *Endpoint) bool {
	return a.mainAccessOf(new(http.Request), nil, on) == closed
}

// unauthorized rejects a request and closes its connection. Proxies treat 401 as a
// failure or pass it on, but never as a denial.
func (a *API) unauthorized(w http.ResponseWriter, r *http.Request, as role) {
	a.Unauthorized.Add(1)
	w.Header()["Connection"] = closes
	w.Header()["Www-Authenticate"] = challenge
	reason := "the bearer token is missing or wrong; send Authorization: Bearer TOKEN, with the token of this listener"
	switch {
	case as == gates:
		reason = "the gate secret is missing or wrong; send " + GateHeader + ", with the secret of --gate-secret-file"
		a.logGate("authentication required: the header field " + GateHeader + " is missing or wrong")
	case a.GatesOnly && (as != operators || a.Auth.Admin == nil):
		reason = "weir serve has a --gate-secret-file and no token, so only gates are open; " +
			"a --token-file, and for operators an --admin-token-file or --admin-listen, opens other calls with a token, --insecure-listen without"
	}
	refuse(w, r, http.StatusUnauthorized, "authentication required: "+reason)
}

var (
	challenge = []string{`Bearer realm="weir"`}
	closes    = []string{"close"}
	oneSecond = []string{"1"}
)

// connKey is the key of a request's connection in its context.
type connKey struct{}

// WithConn stores the connection in the context of its requests, for http.Server.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, listen.ConnOf(c))
}

// errNoSlot rejects an authenticated request if its connection got no slot.
var errNoSlot error = &calls.Problem{Err: calls.ErrBusy,
	Detail: "no decision: too many open connections; nothing was charged, try again in a second, or raise --max-connections"}

// refuseConnection answers with errNoSlot and closes the connection.
func (a *API) refuseConnection(w http.ResponseWriter) {
	a.Capacity.Reject()
	w.Header()["Connection"] = closes
	a.reject(w, errNoSlot)
}
