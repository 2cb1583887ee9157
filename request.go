package weir

import (
	"time"

	"github.com/weirlimit/weir/engine"
)

// Request is one attempt, peek, record or refund. Request{N: 1} attempts one unit now.
type Request struct {
	Op     Op           // OpAttempt, OpPeek, OpRecord or OpRefund
	N      int64        // units; an attempt or a record of 0 is a peek (R4)
	At     time.Time    // zero = now, by the engine's clock; or an instant, 1970-01-01T00:00:00Z … MaxInstant µs later (R1)
	From   time.Time    // the At of the grant's Decision, for a refund
	States []LimitState // nil, or filled with the state of every limit after the decision

	// ID is the idempotency key, "" or 1 … MaxIDBytes bytes: a repeated call is charged
	// once (Limiter.AllowOnce). A repeated refund takes nothing more and returns the units
	// that the first one took. ID is ignored for peeks and for 0 units.
	ID string

	TTL time.Duration // time to live of the reservation, for Limiter.Reserve
}

// check rejects options that do not fit the operation, and sets the rest of the call (R14).
func (r *Request) check(c *engine.Call) (err error) {
	switch {
	case r.Op > OpRefund:
		return engine.Input("request", "%d is not an Op; use OpAttempt, OpPeek, OpRecord or OpRefund", r.Op)
	case r.Op == OpRefund && (r.TTL != 0 || r.States != nil):
		return engine.Input("request", "a refund has no TTL and fills no States; leave them out")
	case r.TTL != 0 || r.Op != OpRefund && !r.From.IsZero():
		return engine.Input("request", "TTL is for Limiter.Reserve and From for OpRefund; leave them out")
	case r.States != nil && len(r.States) != len(c.Rules.Limits):
		return engine.Input("request", "room for %d states, and policy %q has %d limits; make it as long as Compiled().Limits",
			len(r.States), c.Rules.Name, len(c.Rules.Limits))
	case len(r.ID) > MaxIDBytes:
		return engine.Input("id", "it is %d bytes long; at most %d are allowed", len(r.ID), MaxIDBytes)
	}
	if r.Op == OpRefund {
		c.From, err = instant(r.From, "such as the At of the grant's Decision")
	}
	return err
}

// The first and the last instant that a caller may give.
const firstInstant, lastInstant = "1970-01-01T00:00:00Z", "2255-06-05T23:47:34.740991Z" // 0 and MaxInstant µs

// instant converts an instant of the caller to microseconds since 1970, cut to whole ones. The
// error ends with next.
func instant(t time.Time, next string) (int64, error) {
	if !isInstant(t) {
		return 0, engine.Input("instant", "%s; use %s to %s, %s", t.Format(time.RFC3339Nano), firstInstant, lastInstant, next)
	}
	return t.UnixMicro(), nil
}

// isInstant reports whether a caller may give the instant. Far away, microseconds overflow.
func isInstant(t time.Time) bool {
	s := t.Unix()
	return s >= 0 && s <= MaxInstant/1_000_000 && t.UnixMicro() <= MaxInstant
}
