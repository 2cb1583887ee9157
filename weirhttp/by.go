package weirhttp

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/option"
)

// By maps each dimension of a policy to the function that takes its value from a request. Its names
// are those of the policy's dimensions, no more and no fewer, and perhaps that of plan-by of a
// policy file. A policy that counts all callers together has none; its By is nil or empty.
type By map[string]ValueFunc

// ValueFunc takes the value of one dimension from a request. A request without the value is
// reported as a *KeyError and answered with 400. So is one with an empty value: such requests would
// share a history (R14); only the value of plan-by may be empty, for no plan. Any other error is a
// fault of the program ([ErrProgram]).
type ValueFunc = func(*http.Request) (string, error)

// ErrProgram reports a fault of the program, which no client can mend. A ValueFunc failed for a
// reason other than the request. Or a reload of the policy file has removed the policy, or has
// changed its dimensions, so that [By] no longer fits. The default answer is 500 and a log line,
// also with AllowWhenDown.
var ErrProgram = errors.New("weirhttp: a fault of the program")

// KeyError reports that a request lacks a value of the key, or that the value is
// malformed. Its text is meant for the client.
type KeyError struct {
	Problem string
}

// Error returns the problem.
func (e *KeyError) Error() string { return "weirhttp: " + e.Problem }

// Header takes the value of a request header field. A field that is missing or empty is
// a *KeyError: requests without it must not share one history by accident. So is a field
// that was sent twice, because neither value can be trusted more. The value of Host is r.Host.
//
// A client that can choose the value chooses the history. Count by a header only if it
// is authenticated.
func Header(name string) ValueFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		lines := r.Header[name]
		if name == "Host" { // net/http moves it
			lines = []string{r.Host}
		}
		switch {
		case len(lines) == 0 || len(lines) == 1 && lines[0] == "":
			problem := "the header " + answer.Shown(name) + " is missing; send it with every request"
			return "", &KeyError{Problem: problem}
		case len(lines) > 1:
			problem := "the header " + answer.Shown(name) + " was sent more than once; send it once"
			return "", &KeyError{Problem: problem}
		default:
			return lines[0], nil
		}
	}
}

// IPOption sets one property of [ClientIP]. A nil IPOption changes nothing.
type IPOption func(*clientIP)

// clientIP finds the address of the client that sent a request.
type clientIP struct {
	trusted clientaddr.Proxies
	wide    string             // the first range that is too wide, with the reason; "" if none is
	isWide  bool               // WideProxies
	bits    int                // prefix length to which IPv6 addresses are cut
	log     *slog.Logger       // nil = slog.Default()
	hops    clientaddr.Proxies // trusted, and the private ranges
	seen    atomic.Int32       // requests without X-Forwarded-For, up to firstRequests

	warnedOfPeer    atomic.Bool // warnOfPeer
	warnedOfNothing atomic.Bool // a trusted proxy sent no X-Forwarded-For
	warnedOfHop     atomic.Bool // a proxy further left is not trusted
}

// ClientIP takes the client's address from a request, in one canonical form without zone
// and port:
//   - IPv4 as 192.0.2.1, also if it is mapped into IPv6;
//   - IPv6 as its /64, such as 2001:db8:1:2::/64, because a client has all addresses of
//     its /64;
//   - a client behind NAT64 by the IPv4 address that 64:ff9b::/96 embeds, and within
//     64:ff9b:1::/48 by the whole address.
//
// The address is that of the peer, unless the peer is one of TrustedProxies. In that
// case X-Forwarded-For is read from its right end, where the nearest proxy wrote. The
// first address that is not a trusted proxy is the client's. The text left of it may be
// forged by the client and is not parsed. If every address is a trusted proxy, the
// leftmost one counts; if a trusted proxy sent no header, its own address counts. The
// header Forwarded (RFC 7239) is not read.
//
// An element that a trusted proxy wrote must be an address. "unknown", an obfuscated
// name or an empty element is a *KeyError, because all such clients would share a
// history.
//
// Behind a proxy that is not trusted, or that sends no X-Forwarded-For, all clients would
// count as one. So the first request that shows it is a warning in [IPErrorLog].
//
// A connection without an IP address, as of a unix socket, is a fault of the program
// ([ErrProgram]). To trust all who can connect to the socket, let a handler in front set
// RemoteAddr to an address of TrustedProxies, such as 127.0.0.1.
func ClientIP(opts ...IPOption) ValueFunc {
	c := &clientIP{bits: clientaddr.Bits}
	option.Apply(c, opts)
	if c.wide != "" && !c.isWide {
		panic("weirhttp: TrustedProxies: " + c.wide +
			"; name your proxies, or add WideProxies() if this is meant")
	}
	c.hops = slices.Concat(c.trusted, clientaddr.Private)
	return c.value
}

// TrustedProxies sets the addresses of the proxies in front of this server. List your
// proxies and nothing wider: each address of the ranges can name any client. Several
// TrustedProxies add up. ClientIP panics for a range wider than /8, or /16 of IPv6, without
// [WideProxies]. Default: none.
func TrustedProxies(ranges ...netip.Prefix) IPOption {
	return func(c *clientIP) {
		for _, p := range ranges {
			if problem := clientaddr.Wide(p); problem != "" && c.wide == "" {
				c.wide = p.String() + " " + problem
			}
			c.trusted = c.trusted.With(p)
		}
	}
}

// WideProxies permits ranges of TrustedProxies that are wider than /8, or /16 of IPv6. With
// 0.0.0.0/0 and ::/0 every client names its own address, unless a firewall lets only proxies
// connect. Default: they panic.
func WideProxies() IPOption { return func(c *clientIP) { c.isWide = true } }

// IPv6Prefix sets the number of bits by which IPv6 clients are counted, 32 … 128.
// Default: 64. It panics out of range.
func IPv6Prefix(bits int) IPOption {
	if bits < 32 || bits > 128 {
		panic("weirhttp: IPv6Prefix takes 32 to 128 bits")
	}
	return func(c *clientIP) { c.bits = bits }
}

// IPErrorLog sets the logger for three warnings, each at most once:
//   - A request carries the address of a client, such as X-Forwarded-For, and its peer is not
//     a trusted proxy. Either a client forges the field, or TrustedProxies lacks a proxy and
//     all clients behind it share one history. With trusted proxies only peers with a private
//     address cause the warning; loopback, link-local and carrier addresses are private, too.
//   - A trusted proxy sent no X-Forwarded-For, so all of its clients count as one.
//   - X-Forwarded-For leads to a private address that is not a trusted proxy, while a public
//     one stands left of it. That is probably a proxy which TrustedProxies lacks.
//
// A server that clients reach directly can silence it by slog.New(slog.DiscardHandler). Default,
// also for nil: slog.Default().
func IPErrorLog(log *slog.Logger) IPOption { return func(c *clientIP) { c.log = log } }

// firstRequests is the number of requests in which other fields than X-Forwarded-For are looked
// for. That takes 100 ns, and a proxy sends its field with every request.
const firstRequests = 1000

// warn logs the first requests that show a mistake in the proxies, which makes clients share a
// history. The lines name no client. list is X-Forwarded-For, if has is true, and found the
// address that counts.
func (c *clientIP) warn(r *http.Request, peer, found netip.Addr, list string, has bool) {
	switch {
	case !c.trusted.Trusts(peer):
		c.warnOfPeer(r, peer, has)
	case !has:
		c.warnOfNothing(r)
	default:
		c.warnOfHop(peer, found, list)
	}
}

// warnOfNothing logs that a trusted proxy did not name its client.
func (c *clientIP) warnOfNothing(r *http.Request) {
	if c.warnedOfNothing.Load() || c.warnedOfNothing.Swap(true) {
		return
	}
	instead := ""
	if field := clientaddr.ForwardingField(r.Header); field != "" {
		instead = " (" + field + " is not read)"
	}
	c.logger().Warn("weirhttp: a trusted proxy sent no X-Forwarded-For" + instead +
		", so all of its clients count as one; let it send the field")
}

// warnOfHop logs that the address that counts is probably another proxy: it is private, and
// left of it in X-Forwarded-For stands a public one.
func (c *clientIP) warnOfHop(peer, found netip.Addr, list string) {
	if !clientaddr.IsPrivate(found) || c.warnedOfHop.Load() {
		return
	}
	client, ok := c.hops.Follow(peer, list, true)
	if !ok || c.hops.Trusts(client) || c.warnedOfHop.Swap(true) {
		return
	}
	c.logger().Warn("weirhttp: X-Forwarded-For leads to a private address " +
		"that is not a trusted proxy, while a public address stands left of it; " +
		"if that is a proxy, all its clients share one history: " +
		"add it to weirhttp.TrustedProxies; " +
		"if clients have private addresses, silence this line with weirhttp.IPErrorLog")
}

// logger returns the logger of the warnings.
func (c *clientIP) logger() *slog.Logger {
	if c.log == nil {
		return slog.Default()
	}
	return c.log
}

// warnOfPeer logs the first request of a peer that is probably a proxy and is not trusted. has
// reports whether there is an X-Forwarded-For.
func (c *clientIP) warnOfPeer(r *http.Request, peer netip.Addr, has bool) {
	field := "X-Forwarded-For"
	if !has {
		if c.seen.Load() >= firstRequests {
			return
		}
		c.seen.Add(1)
		field = clientaddr.ForwardingField(r.Header)
	}
	if field == "" || c.warnedOfPeer.Load() {
		return
	}
	private := clientaddr.IsPrivate(peer)
	if len(c.trusted) > 0 && !private || c.warnedOfPeer.Swap(true) {
		return
	}
	who := "a peer"
	if private {
		who = "a private address"
	}
	c.logger().Warn("weirhttp: a request with " + field + " comes from " + who +
		" that is not a trusted proxy, so the request counts by the address of the peer; " +
		"if that is your proxy, name it with weirhttp.TrustedProxies, " +
		"else all its clients share one history; " +
		"if clients connect directly, silence this line with weirhttp.IPErrorLog")
}

// errNoPeer is a fault of the program: no client can mend it.
var errNoPeer = errors.New("ClientIP: the connection has no IP address to count it by, " +
	"as on a unix socket; listen on a loopback port, or let a handler in front set RemoteAddr " +
	"to 127.0.0.1, and name 127.0.0.1/32 with weirhttp.TrustedProxies")

// value returns the client's address in its canonical form.
func (c *clientIP) value(r *http.Request) (string, error) {
	peer, ok := clientaddr.ParseNode(r.RemoteAddr)
	if !ok {
		return "", errNoPeer
	}
	lines := r.Header["X-Forwarded-For"]
	list, has := strings.Join(lines, ","), len(lines) > 0
	a, ok := c.trusted.Follow(peer, list, has)
	if !ok {
		return "", &KeyError{
			Problem: "the header X-Forwarded-For does not hold the address that the request came from",
		}
	}
	c.warn(r, peer, a, list, has)
	return clientaddr.Key(a, c.bits), nil
}
