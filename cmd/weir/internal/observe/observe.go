// Package observe defines the events that the protocols emit for metrics, lists of denied
// keys and traces, and the log of failures. The protocols are independent of these
// consumers.
//
// The trade-off: two interfaces of one method. Consumers get the content of a Call and no
// more.
package observe

import (
	"time"

	"github.com/weirlimit/weir"
)

// Protocol is how a call came in.
type Protocol uint8

// The protocols.
const (
	HTTP      Protocol = iota // POST /v1/…
	Gate                      // ANY /gate/{policy}
	GRPC                      // Envoy's rate limit service, over gRPC and as JSON
	RESP                      // Redis clients
	Protocols = iota
)

// String returns the name in metrics and traces.
func (f Protocol) String() string { return [Protocols]string{"http", "gate", "grpc", "resp"}[f] }

// Outcome is the result of a call.
type Outcome uint8

// The outcomes. Every call has exactly one.
const (
	Allowed   Outcome = iota // an attempt was granted in full
	Partial                  // an attempt was granted in part
	Denied                   // an attempt was denied
	Error                    // no decision could be made, for want of the store
	Peeked                   // decided or counted without taking units
	Recorded                 // units were added without a decision
	Refunded                 // units were taken back
	Reset                    // histories were dropped
	WouldDeny                // a shadow policy would have denied an attempt
	Replayed                 // a retry with an idempotency key was charged nothing
	Outcomes  = iota
)

// String returns the name in metrics and traces.
func (o Outcome) String() string {
	return [Outcomes]string{"allowed", "partial", "denied", "error", "peeked", "recorded", "refunded", "reset", "would_deny", "replayed"}[o]
}

// Call is a call for a policy with its outcome.
type Call struct {
	Protocol Protocol
	Outcome  Outcome
	Degraded bool     // a fallback answered
	Limit    string   // of a denial, also of a shadow policy: the binding limit
	Key      weir.Key // of the same: the key, valid during the call only
	At       int64    // of the same: the instant by the clock of this process, microseconds since 1970
}

// IsDenial reports whether the call was denied, or a shadow policy would have denied it.
// Then Limit, Key and At are set.
func (c *Call) IsDenial() bool { return c.Outcome == Denied || c.Outcome == WouldDeny }

// Policy receives the calls for one policy. Note is safe for concurrent use, does not
// block and does not allocate.
type Policy interface{ Note(c Call) }

// Span is a decision in a trace. It holds no key.
type Span struct {
	Protocol Protocol
	Policy   string // or the domain of Envoy's rate limit service
	Outcome  Outcome
	Limit    string // of a denial: the binding limit
	Degraded bool
	Began    time.Time
	Took     time.Duration
}

// Tracer receives decisions after they are made, with the W3C traceparent of the request,
// or "". Without tracing there is no Tracer, and no Span is computed.
type Tracer interface {
	Span(traceparent string, s Span)
}
