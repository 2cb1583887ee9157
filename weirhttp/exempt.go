package weirhttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weirlimit/weir/internal/clientaddr"
)

// Exempt passes the requests of clients with an address in one of the ranges, as [Skip] does:
// they are neither counted nor given header fields. client is a function of [ClientIP], best
// the one of the key, because it knows the trusted proxies:
//
//	client := weirhttp.ClientIP(weirhttp.TrustedProxies(netip.MustParsePrefix("10.0.0.0/24")))
//	exempt := weirhttp.Exempt(client, netip.MustParsePrefix("203.0.113.0/24"))
//	perIP := weirhttp.Middleware(limiter, weirhttp.By{"ip": client}, exempt)
//
// The policy may count by something else than addresses. A forged X-Forwarded-For has
// no effect, because ClientIP reads it from trusted proxies only. But behind a proxy that is not
// trusted every client has the address of the proxy, and a range with it exempts them all.
//
// An IPv6 client is exempt if the whole prefix by which it is counted is in a range. Several
// Exempt add up. A request without a usable address is not exempt. If client fails for another
// reason, the request fails with [ErrProgram].
//
// Exempt panics if client is nil, or if a range is invalid, holds every address, or is an IPv6
// range longer than /64: a client has all addresses of its /64. One address is its /32 or /64.
//
// Default: no client is exempt.
func Exempt(client ValueFunc, ranges ...netip.Prefix) Option {
	if client == nil {
		panic("weirhttp: Exempt: the function of the client's address is nil; " +
			"pass that of ClientIP")
	}
	e := exemption{client: client}
	for _, r := range ranges {
		switch {
		case !r.IsValid():
			panic("weirhttp: Exempt: a range is the zero or an invalid netip.Prefix; " +
				"make it with netip.MustParsePrefix")
		case r.Bits() == 0:
			panic(fmt.Sprintf("weirhttp: Exempt: %v exempts every client; "+
				"leave Middleware out, or name ranges", r))
		case r.Addr().Is6() && !r.Addr().Is4In6() && r.Bits() > clientaddr.Bits:
			panic(fmt.Sprintf("weirhttp: Exempt: %v is a part of a /%d, "+
				"and a client has all addresses of its own; exempt %v",
				r, clientaddr.Bits, netip.PrefixFrom(r.Addr(), clientaddr.Bits).Masked()))
		}
		e.ranges = e.ranges.With(r)
	}
	return func(c *config) { c.exempt = append(c.exempt, e) }
}

// exemption is the argument of an Exempt.
type exemption struct {
	client ValueFunc
	ranges clientaddr.Proxies
}

// isExempt reports whether a request passes because of the address of its client. The error is
// a fault of the program.
func (m *middleware) isExempt(r *http.Request) (bool, error) {
	for _, e := range m.exempt {
		value, err := e.client(r)
		if _, isClients := errors.AsType[*KeyError](err); err != nil && !isClients {
			return false, m.keys.Fault("the function of Exempt failed: %w", err)
		}
		if err == nil && e.covers(value) {
			return true, nil
		}
	}
	return false, nil
}

// covers reports whether a range holds all addresses of a client, in the form of ClientIP.
func (e *exemption) covers(client string) bool {
	counted, err := netip.ParsePrefix(client)
	if err != nil {
		address, ok := clientaddr.ParseNode(client)
		if !ok {
			return false
		}
		counted = netip.PrefixFrom(address, address.BitLen())
	}
	for _, r := range e.ranges {
		if r.Bits() <= counted.Bits() && r.Contains(counted.Addr()) {
			return true
		}
	}
	return false
}
