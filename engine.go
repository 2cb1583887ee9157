package weir

import (
	"context"
	"fmt"
	"time"
)

// Now, as the instant now of Engine.Refund, RefundOnce and Count, stands for the engine's own
// clock. A Request has its zero At for that.
const Now int64 = -1

// Oldest, as the instant of a refund, stands for the oldest entry that counts, in each
// limit its own. It serves callers that do not know which grant was unused. The entries
// that remain are newer, so they count for longer than the unused one would have.
const Oldest int64 = -2

// Op is the kind of a [Request].
type Op uint8

const (
	// OpAttempt decides about units and records the granted ones (R6).
	OpAttempt Op = iota
	// OpPeek returns the decision of an attempt and changes nothing (R4).
	OpPeek
	// OpRecord adds units without a decision (R10).
	OpRecord
	// OpRefund takes back up to N units of the grant at From (R10). Only Limiter.Decide
	// takes it. Its Decision has Granted, the units taken back, and Allowed.
	OpRefund
)

// Request is one attempt, peek, record or refund. Request{N: 1} attempts one unit now. An
// engine gets only valid requests: no refunds, N is 0 … MaxUnits, Instant is in its range, and
// States is nil or as long as the plan has limits.
type Request struct {
	Op     Op
	full   bool         // the memory engine cannot remember the operation: recording units fails
	once   string       // the name of the operation, while the memory engine decides it
	N      int64        // units; an attempt or a record of 0 is a peek (R4)
	At     time.Time    // zero = now, by the engine's clock; or an instant, 1970-01-01T00:00:00Z … MaxInstant µs later (R1)
	From   time.Time    // of a refund: the At of the grant's Decision
	States []LimitState // nil, or filled with the state of every limit after the decision

	// ID is the idempotency key, "" or 1 … MaxIDBytes bytes: a repeated call is charged
	// once (Limiter.AllowOnce). A repeated refund takes nothing more and returns the units
	// that the first one took; only a RefundOnceEngine takes it. ID is ignored for peeks
	// and for 0 units.
	ID string

	TTL time.Duration // of Limiter.Reserve: the time to live of the reservation
}

// names reports whether the request is an operation with an idempotency key.
func (r *Request) names() bool { return r.ID != "" && r.Op != OpPeek && r.N > 0 }

// Instant returns the instant that the caller gave, in microseconds since 1970, 0 … MaxInstant.
// If given is false there is none, and the engine's clock decides (R1).
func (r *Request) Instant() (micros int64, given bool) {
	if r.At.IsZero() {
		return 0, false
	}
	return r.At.UnixMicro(), true
}

// now returns the instant for a method of an Engine that takes one, or Now.
func (r *Request) now() int64 {
	if micros, given := r.Instant(); given {
		return micros
	}
	return Now
}

// checkInstant returns ErrInstant for a given instant out of range.
func (r *Request) checkInstant() error {
	if r.At.IsZero() {
		return nil
	}
	_, err := instant(r.At, "or leave it out to decide now")
	return err
}

// check rejects requests that no engine can answer (R14).
func (r *Request) check(p *Plan) error {
	if err := r.checkInstant(); err != nil {
		return err
	}
	switch {
	case r.Op > OpRefund:
		return fmt.Errorf("%w: %d is not an Op; use OpAttempt, OpPeek, OpRecord or OpRefund", ErrRequest, r.Op)
	case r.Op == OpRefund:
		return fmt.Errorf("%w: a refund is not one of several calls; make it by Limiter.Decide or Refund", ErrRequest)
	case r.TTL != 0 || !r.From.IsZero():
		return fmt.Errorf("%w: TTL is for Limiter.Reserve and From for OpRefund; leave them out", ErrRequest)
	}
	if r.States != nil && len(r.States) != len(p.limits) {
		return fmt.Errorf("%w: room for %d states, and policy %q has %d limits; make it as long as Plan().Limits()",
			ErrRequest, len(r.States), p.Name(), len(p.limits))
	}
	if len(r.ID) > MaxIDBytes {
		return fmt.Errorf("%w: it is %d bytes long; at most %d are allowed", ErrID, len(r.ID), MaxIDBytes)
	}
	return nil
}

// Engine stores histories and decides. It is safe for concurrent use and keeps these
// promises, which weirtest.Run checks by their rule numbers:
//
//   - Each method uses one instant, that of its own clock or the one passed, and acts on
//     all limits of the plan in one atomic step (R1, R7).
//   - A denial, a peek and a count change nothing (R4).
//   - A history belongs to the limit's policy (PlanLimit.Policy), the limit's name and kind,
//     and the key values that the limit counts by, so a plan with other numbers finds it. A
//     Reset forgets the histories of all kinds (R12).
//   - The key has as many values as the plan has dimensions. Values are opaque bytes, and
//     different tuples never share a history (R14).
//   - An error means that no decision was possible and nothing changed, unless it wraps
//     ErrOutcomeUnknown. A denial is not an error (R15).
//   - A request with an ID is charged once. Repeated under the same policy, key and ID
//     within Plan.IdempotencyTTL, it returns the first decision with Replayed, and
//     nothing changes. With other units or another Op it returns ErrID.
//   - Each method returns soon after its context ends, with the context's error or a
//     decision. An engine that never waits may ignore the context.
//   - The engine does not keep the Plan, the Key, Request.States or Request.ID beyond the
//     call.
type Engine interface {
	// Decide decides an attempt, a peek or a record.
	Decide(ctx context.Context, p *Plan, k Key, r Request) (Decision, error)

	// Refund takes back up to n units of the entry granted at instant at in every limit,
	// never below zero (R10). It returns the most units it took in one limit. at may be
	// Oldest.
	Refund(ctx context.Context, p *Plan, k Key, at, n, now int64) (int64, error)

	// Count returns the units recorded in limit i in (now - last, now], where last is
	// microseconds, 1 … Window. For a limit that is not Rolling it returns the units that
	// count now, for every last (R11, PlanLimit.Span).
	Count(ctx context.Context, p *Plan, k Key, i int, last, now int64) (int64, error)

	// Reset forgets the histories of the key in every limit of the plan (R10).
	Reset(ctx context.Context, p *Plan, k Key) error
}

// RefundOnceEngine is an Engine with refunds that accept an idempotency key. Memory,
// weirdisk.Engine, weirredis.Engine and fallback.Engine implement it.
type RefundOnceEngine interface {
	Engine

	// RefundOnce is Refund that can be repeated. Under the same policy, key and id within
	// Plan.IdempotencyTTL it changes nothing and returns the units that the first call
	// took. With other units, another instant at, or the id of an attempt or a record it
	// returns ErrID.
	RefundOnce(ctx context.Context, p *Plan, k Key, at, n, now int64, id string) (int64, error)
}

// The first and the last instant that a caller may give.
const firstInstant, lastInstant = "1970-01-01T00:00:00Z", "2255-06-05T23:47:34.740991Z" // 0 and MaxInstant µs

// instant converts an instant of the caller to microseconds since 1970, cut to whole ones. The
// error is ErrInstant, and its text ends with next.
func instant(t time.Time, next string) (int64, error) {
	if s := t.Unix(); s < 0 || s > MaxInstant/1_000_000 || t.UnixMicro() > MaxInstant { // far away, microseconds overflow
		return 0, fmt.Errorf("%w: %s; use %s to %s, %s", ErrInstant, t.Format(time.RFC3339Nano), firstInstant, lastInstant, next)
	}
	return t.UnixMicro(), nil
}
