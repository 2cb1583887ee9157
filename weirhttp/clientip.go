package weirhttp

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/weirlimit/weir/internal/clientaddr"
)

// IPOption adjusts ClientIP.
type IPOption func(*clientIP)

// clientIP finds the address a request came from.
type clientIP struct {
	trusted   []netip.Prefix
	forwarded bool // read Forwarded in place of X-Forwarded-For
	bits      int  // IPv6 addresses are cut to this prefix
	log       *slog.Logger
	warn      sync.Once
}

// ClientIP takes the client's address from a request, in one canonical form:
// IPv4 as 192.0.2.1, also when mapped into IPv6; IPv6 as the /64 it is in, such
// as 2001:db8:1:2::/64, since a client has all addresses of its /64; no zone, no
// port. A client behind NAT64 is counted by its IPv4 address, which 64:ff9b::/96
// embeds, and within 64:ff9b:1::/48 by the whole address.
//
// Nothing a client can write is believed. The address is that of the peer,
// unless the peer is one of TrustedProxies. Then the header that proxies write is
// read from its right end, where the nearest proxy wrote: the first address that
// is not a trusted proxy is the client; what stands left of it, the client may
// have made up, and it is not even parsed. If every address is a trusted proxy,
// it is the leftmost one; if a trusted proxy sent no header, its own.
//
// What a trusted proxy wrote must be an address: "unknown", an obfuscated name or
// an empty element is a *KeyError, since all such clients would share a history.
func ClientIP(opts ...IPOption) ValueFunc {
	c := &clientIP{bits: clientaddr.Bits}
	for _, o := range opts {
		o(c)
	}
	return func(r *http.Request) (string, error) {
		a, err := c.find(r)
		if err != nil {
			return "", err
		}
		return clientaddr.Key(a, c.bits), nil
	}
}

// TrustedProxies names the addresses of the proxies in front of this server.
// List your proxies and nothing wider: each address of the ranges can name any
// client. Default: none. Several TrustedProxies add up.
func TrustedProxies(ranges ...netip.Prefix) IPOption {
	return func(c *clientIP) {
		for _, p := range ranges {
			if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
				p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
			}
			c.trusted = append(c.trusted, p.Masked())
		}
	}
}

// UseForwarded reads the header Forwarded (RFC 7239) in place of
// X-Forwarded-For. It has no effect without TrustedProxies. Choose the header
// your proxies write: the other one arrives as the client sent it.
func UseForwarded() IPOption { return func(c *clientIP) { c.forwarded = true } }

// IPv6Prefix counts IPv6 clients by a prefix of that many bits, 32 … 128.
// Default: 64. It panics out of range.
func IPv6Prefix(bits int) IPOption {
	if bits < 32 || bits > 128 {
		panic("weirhttp: IPv6Prefix takes 32 to 128 bits")
	}
	return func(c *clientIP) { c.bits = bits }
}

// Logger gets one warning, once, if X-Forwarded-For or Forwarded arrives while no
// proxy is trusted: either a client is trying, or TrustedProxies was forgotten
// and all clients behind the proxy share one history. Default: no warning.
func Logger(log *slog.Logger) IPOption { return func(c *clientIP) { c.log = log } }

func (c *clientIP) find(r *http.Request) (netip.Addr, error) {
	peer, ok := parseNode(r.RemoteAddr)
	if !ok {
		return peer, &KeyError{Problem: "the connection has no IP address to count it by"}
	}
	if len(c.trusted) == 0 {
		c.warnOnce(r)
	}
	if c.forwarded {
		return c.walk(peer, r.Header["Forwarded"], "Forwarded", lastForwarded)
	}
	return c.walk(peer, r.Header["X-Forwarded-For"], "X-Forwarded-For", lastListed)
}

// lastNode splits the last address off a header's text. ok is false when it is
// not an address.
type lastNode func(text string) (a netip.Addr, rest string, more, ok bool)

// walk goes from the peer towards the client as long as it meets trusted
// proxies, the peer itself to begin with.
func (c *clientIP) walk(at netip.Addr, lines []string, name string, last lastNode) (netip.Addr, error) {
	text, more := strings.Join(lines, ","), len(lines) > 0
	for more && c.trusts(at) {
		var ok bool
		at, text, more, ok = last(text)
		if !ok {
			return at, &KeyError{Problem: "the header " + name + " does not say which address the request came from"}
		}
	}
	return at, nil
}

func (c *clientIP) trusts(a netip.Addr) bool {
	for _, p := range c.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func (c *clientIP) warnOnce(r *http.Request) {
	if c.log == nil || r.Header["X-Forwarded-For"] == nil && r.Header["Forwarded"] == nil {
		return
	}
	c.warn.Do(func() {
		c.log.Warn("a forwarding header arrived, but no proxy is trusted, so it is ignored; " +
			"if this server is behind a proxy, name it with weirhttp.TrustedProxies, else all its clients share one history")
	})
}
