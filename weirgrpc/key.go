package weirgrpc

import (
	"context"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/clientaddr"
)

// Call is a call that is counted.
type Call struct {
	Method  string // in full, such as /package.Service/Method
	Request any    // the message of a unary call, or of a stream with EachMessage; nil when a stream begins

	client bool // it is about to be sent
}

// KeyFunc returns the key that a call is counted by. An error means that the call has
// none; it is refused, not counted together with others.
type KeyFunc = func(context.Context, *Call) (weir.Key, error)

// ValueFunc takes one dimension's value from a call. Its error gives the reason why there is none.
type ValueFunc = func(context.Context, *Call) (string, error)

// KeyBy builds the key of a policy with several dimensions, one function each, in
// the order of Plan.Dimensions. Without functions it is the key of a policy that
// counts all callers together.
func KeyBy(values ...ValueFunc) KeyFunc {
	return func(ctx context.Context, c *Call) (weir.Key, error) {
		var few [4]string
		all := few[:0]
		for _, value := range values {
			v, err := value(ctx, c)
			if err != nil {
				return weir.Key{}, err
			}
			all = append(all, v)
		}
		return weir.K(all...), nil
	}
}

// ByMetadata is KeyBy(Metadata(name)).
func ByMetadata(name string) KeyFunc { return KeyBy(Metadata(name)) }

// ByPeer is KeyBy(PeerIP).
func ByPeer() KeyFunc { return KeyBy(PeerIP) }

// Metadata takes the value that the client sends under a name: on a server from the
// incoming call, on a client from the outgoing one, also within a handler, whose
// context holds both. One that is missing, empty or sent twice is a *KeyError.
//
// A client that can choose the value chooses the history. Count by metadata only
// where it is authenticated.
func Metadata(name string) ValueFunc {
	return func(ctx context.Context, c *Call) (string, error) {
		var values []string
		if c.client {
			md, _ := metadata.FromOutgoingContext(ctx)
			values = md.Get(name)
		} else {
			values = metadata.ValueFromIncomingContext(ctx, name)
		}
		switch {
		case len(values) == 0 || len(values) == 1 && values[0] == "":
			return "", &KeyError{Problem: "the metadata " + answer.Shown(name) + " is missing; send it with every call"}
		case len(values) > 1:
			return "", &KeyError{Problem: "the metadata " + answer.Shown(name) + " was sent more than once; send it once"}
		}
		return values[0], nil
	}
}

// PeerIP is the address that the connection comes from, in the form of
// weirhttp.ClientIP: IPv4 as 192.0.2.1, also behind NAT64, and IPv6 as the /64 it is
// in. Behind a proxy it is the proxy's. On a unix socket there is none.
func PeerIP(ctx context.Context, _ *Call) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "", &KeyError{Problem: "the call has no address that it comes from"}
	}
	at, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return "", &KeyError{Problem: "the call does not come from an IP address"}
	}
	return clientaddr.Key(at.Addr(), clientaddr.Bits), nil
}

// Method is the full name of the method, to count each on its own.
func Method(_ context.Context, c *Call) (string, error) { return c.Method, nil }

// KeyError reports that a call has no key. Its text is meant
// for the client.
type KeyError struct{ Problem string }

// Error is the problem.
func (e *KeyError) Error() string { return "weirgrpc: " + e.Problem }
