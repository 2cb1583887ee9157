package weirgrpc

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/clientaddr"
)

// Call is a call to be counted.
type Call struct {
	Method  string // in full, such as /package.Service/Method
	Request any    // the message of a unary call; nil for a stream
}

// By maps each dimension of a policy to the function that takes its value from a call. Its
// names are those of the policy's dimensions, no more and no fewer, and perhaps that of
// plan-by of a policy file. A policy that counts all
// callers together has none; its By is nil or empty.
type By map[string]ValueFunc

// ValueFunc takes the value of one dimension from a call. A call without the value is
// reported as a *KeyError and ends with INVALID_ARGUMENT. So does one with an empty value:
// such calls would share a history (R14); only the value of plan-by may be empty, for no plan. Any other
// error is a fault of the program ([ErrProgram]).
type ValueFunc = func(context.Context, *Call) (string, error)

// ErrProgram reports a fault of the program, which no client can mend. A ValueFunc failed for a
// reason other than the call. Or a reload of the policy file has removed the policy, or has
// changed its dimensions, so that [By] no longer fits. The default answer is INTERNAL and a log
// line, also with AllowWhenDown.
var ErrProgram = errors.New("weirgrpc: a fault of the program")

// Metadata returns a function that takes the metadata of that name from the incoming call.
// Metadata that is missing, empty or sent twice is a *KeyError.
//
// A client that can choose the value chooses the history. Use only metadata that is
// authenticated.
func Metadata(name string) ValueFunc {
	return func(ctx context.Context, _ *Call) (string, error) {
		switch values := metadata.ValueFromIncomingContext(ctx, name); {
		case len(values) == 0 || len(values) == 1 && values[0] == "":
			return "", &KeyError{Problem: "the metadata " + answer.Shown(name) + " is missing; send it with every call"}
		case len(values) > 1:
			return "", &KeyError{Problem: "the metadata " + answer.Shown(name) + " was sent more than once; send it once"}
		default:
			return values[0], nil
		}
	}
}

// errNoPeer is a fault of the program: no client can mend it.
var errNoPeer = errors.New("PeerIP: the connection has no IP address to count it by, " +
	"as on a unix socket; listen on a TCP port, " +
	"or write a ValueFunc that reads the address which the proxy adds")

// PeerIP returns the address of the connection, in the form of weirhttp.ClientIP: IPv4 as
// 192.0.2.1, also behind NAT64, and IPv6 as its /64. A unix socket has none, which is a fault
// of the program ([ErrProgram]).
//
// Behind a proxy it is the proxy's address, so all its clients count as one. The first call
// that shows it is one line in slog.Default().
func PeerIP(ctx context.Context, _ *Call) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "", errNoPeer
	}
	at, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return "", errNoPeer
	}
	forwarded.warn(ctx)
	return clientaddr.Key(at.Addr(), clientaddr.Bits), nil
}

// forwarded is the warning of PeerIP, once in a process.
var forwarded proxyWarning

// proxyWarning is a warning of calls that a proxy has forwarded.
type proxyWarning struct {
	seen   atomic.Int32 // calls, up to firstCalls
	warned atomic.Bool
}

// firstCalls is the number of calls whose metadata are looked at: a proxy sends its field with
// every call.
const firstCalls = 1000

// warn logs the first call with the metadata that proxies add. The line names no client.
func (w *proxyWarning) warn(ctx context.Context) {
	if w.seen.Load() >= firstCalls {
		return
	}
	w.seen.Add(1)
	for _, field := range clientaddr.ForwardingFields {
		name := strings.ToLower(field)
		if metadata.ValueFromIncomingContext(ctx, name) == nil || w.warned.Swap(true) {
			continue
		}
		slog.Warn("weirgrpc: a call with the metadata "+name+" was counted by PeerIP, "+
			"the address of the connection; if a proxy forwards the calls, all its clients share one history: "+
			"write a ValueFunc that reads the address which the proxy adds", "metadata", name)
	}
}

// Method returns the full name of the method, to count each method separately.
func Method(_ context.Context, c *Call) (string, error) { return c.Method, nil }

// KeyError reports that a call lacks a value of the key, or that the value is malformed.
// Its text is sent to the client.
type KeyError struct {
	Problem string
}

// Error returns the problem.
func (e *KeyError) Error() string { return "weirgrpc: " + e.Problem }
