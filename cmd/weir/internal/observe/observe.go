// Package observe defines the events that the protocols emit for metrics, lists of denied
// keys and traces, and the log of failures. The protocols are independent of these
// consumers.
//
// The trade-off: consumers get the content of a Call and no more.
package observe

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// Protocol is how a call came in.
type Protocol uint8

// The protocols.
const (
	HTTP      Protocol = iota // POST /v1/…
	Gate                      // ANY /gate/{policy}
	GRPC                      // Envoy's rate limit service
	RESP                      // Redis clients
	Protocols = iota
)

var protocolNames = [Protocols]string{HTTP: "http", Gate: "gate", GRPC: "grpc", RESP: "resp"}

// String returns the name in metrics and traces.
func (f Protocol) String() string { return protocolNames[f] }

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
	Blocked                  // an operator blocked a key, or released it
	WouldDeny                // a shadow policy would have denied an attempt
	Replayed                 // a retry with an idempotency key was charged nothing
	Outcomes  = iota
)

var outcomeNames = [Outcomes]string{
	Allowed:   "allowed",
	Partial:   "partial",
	Denied:    "denied",
	Error:     "error",
	Peeked:    "peeked",
	Recorded:  "recorded",
	Refunded:  "refunded",
	Reset:     "reset",
	Blocked:   "blocked",
	WouldDeny: "would_deny",
	Replayed:  "replayed",
}

// String returns the name in metrics and traces.
func (o Outcome) String() string { return outcomeNames[o] }

// Call is a call for a policy with its outcome.
type Call struct {
	Protocol Protocol
	Outcome  Outcome
	Degraded bool     // a fallback answered
	Limit    string   // the binding limit of a denial, also by a shadow policy
	Blocked  bool     // a block runs after such a denial
	Key      weir.Key // the key of an attempt, valid during the call only
}

// Span is a decision in a trace. It holds no key.
type Span struct {
	Protocol Protocol
	Policy   string // or the domain of Envoy's rate limit service
	Outcome  Outcome
	Limit    string // the binding limit of a denial
	Degraded bool
	Began    time.Time
	Took     time.Duration
}

// Tracer receives decisions after they are made, with the W3C traceparent of the request,
// or "". Without tracing there is no Tracer, and no Span is computed.
type Tracer interface {
	Span(traceparent string, s Span)
}

// Log is a log for events that clients can cause without end: broken connections,
// rejected gate calls, failures of the store. It writes at most Max lines per Period,
// so that a client cannot fill the disk. The next line holds the number of omitted
// ones, not_logged.
type Log struct {
	To     *slog.Logger
	Max    int
	Period time.Duration

	mu      sync.Mutex // protects the following
	since   time.Time  // the beginning of the period
	lines   int        // in this period
	omitted int        // since the last line
}

// Line logs a message with its attributes, or counts it. It reports whether it logged.
func (l *Log) Line(level slog.Level, message string, attributes ...any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.since) >= l.Period {
		l.since = now
		l.lines = 0
	}
	if l.lines == l.Max {
		l.omitted++
		return false
	}
	l.lines++
	if l.omitted > 0 {
		attributes = append(attributes, "not_logged", l.omitted)
		l.omitted = 0
	}
	l.To.Log(context.Background(), level, message, attributes...)
	return true
}

// Write logs a line as a warning, for the error log of net/http.
func (l *Log) Write(line []byte) (int, error) {
	l.Line(slog.LevelWarn, strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// NoDecision logs an error of the store, without keys.
func (l *Log) NoDecision(err error) {
	l.Line(slog.LevelError, "no decision could be made", "error", answer.Logged(err))
}
