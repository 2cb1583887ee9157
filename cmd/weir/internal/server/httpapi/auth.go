package httpapi

import (
	"context"
	"net"
	"net/http"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/weirhttp"
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

// mayCall reports whether the request is authenticated for a role on a listener.
func (a *API) mayCall(r *http.Request, as role, on *Endpoint) bool {
	bearer := func(secret *listen.Secret) bool {
		return secret.Matches(listen.Bearer(r.Header.Get("Authorization")))
	}
	switch as {
	case probes:
		return true
	case operators:
		if a.Auth.Admin != nil {
			return bearer(a.Auth.Admin)
		}
		if on.Admin && on.Local {
			return true
		}
	case gates:
		if a.Auth.Gate != nil && a.Auth.Gate.Matches(r.Header.Get(GateHeader)) {
			return true
		}
		if a.Auth.Gate != nil && a.Auth.Token == nil && !on.Clients {
			return false
		}
	}
	switch {
	case on.Clients && a.TLS.Verified(connOf(r), r.TLS):
		return true
	case a.Auth.Token != nil:
		return bearer(a.Auth.Token)
	}
	return !on.Clients && !a.GatesOnly
}

// authenticated reports whether the request may make the main calls of its listener.
func (a *API) authenticated(r *http.Request, on *Endpoint) bool {
	if on.Admin {
		return a.mayCall(r, operators, on)
	}
	return a.mayCall(r, decisions, on)
}

// anonymous is a request without credentials.
var anonymous = new(http.Request)

// IsPrivate reports whether callers of a listener must authenticate.
func (a *API) IsPrivate(on *Endpoint) bool { return !a.authenticated(anonymous, on) }

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

// isDNSRebinding reports whether a page in a browser may have sent the request under a name of
// its own site that resolves to this machine (DNS rebinding). Where callers must
// authenticate that is impossible: such a page has no secret.
//
// Gates are exempt: proxies send arbitrary names, such as their clients'. A page can
// only charge keys there, as it can with a plain link; the gate secret prevents that.
func (a *API) isDNSRebinding(r *http.Request, as role, on *Endpoint) bool {
	return on.Names != nil && !on.Names.Has(r.Host) && as != gates && a.mayCall(anonymous, as, on)
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// WithConn stores the connection in the context of its requests, for http.Server.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, listen.ConnOf(c))
}

// connOf returns the connection of a request, nil if it is unknown.
func connOf(r *http.Request) *listen.Conn {
	c, _ := r.Context().Value(connKey{}).(*listen.Conn)
	return c
}

// refuseConnection rejects an authenticated request whose connection got no slot of its
// own, and closes the connection.
func (a *API) refuseConnection(w http.ResponseWriter) {
	a.Capacity.Reject()
	strict(w.Header())
	w.Header()["Connection"] = closes
	w.Header()["Retry-After"] = oneSecond
	weirhttp.WriteError(w, http.StatusServiceUnavailable,
		"no decision: too many open connections; nothing was charged, try again in a second, or raise --max-connections")
}
