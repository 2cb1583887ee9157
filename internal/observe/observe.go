// Package observe holds the words in which front ends tell what became of calls, so
// that none of them knows who counts, lists or traces them.
//
// The bargain: two interfaces of one method. Who wants to know more than what a Call
// says has to look at the server, not at its calls.
package observe

import (
	"time"

	"github.com/weirlimit/weir"
)

// Front is where a call came in.
type Protocol uint8

// The front ends.
const (
	HTTP      Protocol = iota // POST /v1/…
	Gate                      // ANY /gate/{policy}
	GRPC                      // Envoy's rate limit service, over gRPC and as JSON
	RESP                      // Redis clients
	Protocols = iota
)

// String is the front's name in metrics and traces.
func (f Protocol) String() string { return [Protocols]string{"http", "gate", "grpc", "resp"}[f] }

// Outcome is what became of a call.
type Outcome uint8

// The outcomes. Every call has one.
const (
	Allowed   Outcome = iota // an attempt was granted in full
	Partial                  // an attempt was granted in part
	Denied                   // an attempt was refused
	Error                    // no decision could be made, and the caller is not to blame
	Peeked                   // asked, and nothing was to be taken
	Recorded                 // units were added without asking
	Refunded                 // units were taken back
	Reset                    // histories were forgotten
	WouldDeny                // an attempt passed that a policy would refuse if it were no shadow
	Repeated                 // an operation with an id was made again, and charged nothing
	Outcomes  = iota
)

// String is the outcome's name in metrics and traces.
func (o Outcome) String() string {
	return [Outcomes]string{"allowed", "partial", "denied", "error", "peeked", "recorded", "refunded", "reset", "would_deny", "repeated"}[o]
}

// Of returns what became of an attempt, peek or record of n units that got a decision.
func Of(op weir.Op, n int64, d *weir.Decision) Outcome {
	switch {
	case d.Replayed:
		return Repeated
	case n == 0 || op == weir.OpPeek:
		return Peeked
	case op == weir.OpRecord:
		return Recorded
	case !d.Allowed:
		return Denied
	case d.Granted < n:
		return Partial
	}
	return Allowed
}

// Call is a call for a policy, and what became of it.
type Call struct {
	Protocol Protocol
	Outcome  Outcome
	Degraded bool     // a fallback answered
	Limit    string   // of a denial, or what would be one: the limit that bound
	Key      weir.Key // of the same: whose; not to be kept beyond the call
	At       int64    // of the same: when, by the clock of this process, in microseconds since 1970
}

// IsDenial reports whether the call was denied, or would have been by a policy that
// is a shadow. Then the call says by which limit, whose, and when.
func (c *Call) IsDenial() bool { return c.Outcome == Denied || c.Outcome == WouldDeny }

// Policy is told of the calls for one policy. Note is safe for concurrent use, does
// not block and does not allocate.
type Policy interface{ Note(c Call) }

// Span is a decision as a trace shows it. There is no key in it.
type Span struct {
	Protocol Protocol
	Policy   string // or the domain of Envoy's rate limit service
	Outcome  Outcome
	Limit    string // of a denial: the limit that bound
	Degraded bool
	Began    time.Time
	Took     time.Duration
}

// Tracer is told of decisions when they are over, with the W3C traceparent that the
// request came with, or "". Where tracing is off there is none, and nothing of a
// Span is computed.
type Tracer interface {
	Span(traceparent string, s Span)
}
