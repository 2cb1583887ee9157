package weir

import (
	"context"
	"fmt"
	"time"
)

// Now, as an instant, stands for the engine's own clock.
const Now int64 = -1

// Oldest, as the instant of a refund, stands for that of the oldest entry that counts,
// in each limit its own. It is for who does not know which grant was not used: what
// stays is newer, and so counts for longer, than what should have stayed.
const Oldest int64 = -2

// Op says what an Ask wants done.
type Op uint8

const (
	// OpAttempt asks for units and records what is granted (R6).
	OpAttempt Op = iota
	// OpPeek answers as an attempt would be answered, and changes nothing (R4).
	OpPeek
	// OpRecord adds units without asking (R10).
	OpRecord

	// opRefund is what an operation was that took units back. No Ask has it.
	opRefund
)

// Ask is one question to an engine. The front door has checked it: N is
// 0 … MaxUnits, At is Now or 0 … MaxUnits, States is nil or as long as the
// plan has limits.
type Request struct {
	Op     Op
	full   bool         // the memory engine has no room to remember the operation: recording units fails
	N      int64        // units; an attempt or a record of 0 is a peek (R4)
	At     int64        // the instant in microseconds since 1970, or Now (R1)
	States []LimitState // nil, or filled by the engine with the state of every limit after the decision

	// ID names an attempt or a record, so that it can be made again and is charged
	// once: see Limiter.AllowOnce. "" is none, otherwise it has 1 … MaxIDBytes
	// bytes. Peeks, and attempts of 0 units, have none: one that is given is ignored.
	ID string
}

// names reports whether the ask is an operation that its ID names.
func (a *Request) names() bool { return a.ID != "" && a.Op != OpPeek && a.N > 0 }

// check refuses what no engine could answer (R14).
func (a *Request) check(p *Plan) error {
	if a.Op > OpRecord {
		return fmt.Errorf("%w: %d is no Op; use OpAttempt, OpPeek or OpRecord", ErrRequest, a.Op)
	}
	if a.States != nil && len(a.States) != len(p.limits) {
		return fmt.Errorf("%w: room for %d states, and policy %q has %d limits; make it as long as Plan().Limits()",
			ErrRequest, len(a.States), p.Name(), len(p.limits))
	}
	if len(a.ID) > MaxIDBytes {
		return fmt.Errorf("%w: it is %d bytes long; at most %d are allowed", ErrID, len(a.ID), MaxIDBytes)
	}
	return nil
}

// Engine decides. It is safe for concurrent use, and keeps these promises, which
// weirtest.Run checks by their rule numbers:
//
//   - Each method reads one instant, its own clock or the one passed, and acts
//     on all limits of the plan in one atomic step (R1, R7).
//   - A refusal, a peek and a count change nothing (R4).
//   - Histories belong to (policy name, limit name, key values the limit counts
//     by), so a plan with other numbers finds them (R12).
//   - The key has as many values as the plan has dimensions; values are opaque
//     bytes, and different tuples never share a history (R14).
//   - An error means that no decision could be made and nothing changed, unless it
//     wraps ErrUnknownFate; a denial is not an error (R15).
//   - What an Ask with an ID has recorded is charged once: asked again under the
//     same policy, key and ID within Plan.IdempotencyTTL, it gets the answer it got then,
//     with Repeated, and nothing changes. With other units or another Op it is ErrID.
//   - Each method returns soon after its context ends, with the context's error or a
//     decision. An engine that never waits may ignore the context.
//   - Plan, Key, Ask.States and Ask.ID may not be kept beyond the call.
type Engine interface {
	// Decide answers an attempt, a peek or a record.
	Decide(ctx context.Context, p *Plan, k Key, a Request) (Decision, error)

	// Refund takes back up to n units of the entry granted at instant at in
	// every limit, never below zero (R10). It returns the most it took in one limit.
	// at may be Oldest.
	Refund(ctx context.Context, p *Plan, k Key, at, n, now int64) (int64, error)

	// Count returns the units recorded in the last microseconds of limit i:
	// in (now - last, now], 1 <= last <= Window; of a limit that is not Rolling those
	// that count now, whatever last is (R11, PlanLimit.Span).
	Count(ctx context.Context, p *Plan, k Key, i int, last, now int64) (int64, error)

	// Reset forgets the histories of the key in every limit of the plan (R10).
	Reset(ctx context.Context, p *Plan, k Key) error
}

// RefundOnceEngine is an Engine whose refunds can have an id as well. Memory and
// weirredis.Engine are, and so is fallback.Engine.
type RefundOnceEngine interface {
	Engine

	// RefundOnce is Refund that, asked again under the same policy, key and id within
	// Plan.IdempotencyTTL, changes nothing and returns what it took then. With other
	// units, another instant at, or an id of an attempt or a record it is ErrID.
	RefundOnce(ctx context.Context, p *Plan, k Key, at, n, now int64, id string) (int64, error)
}

// refundOnce asks e, which may not know how. An id of "" is none.
func refundOnce(ctx context.Context, e Engine, p *Plan, k Key, at, n, now int64, id string) (int64, error) {
	if id == "" {
		return e.Refund(ctx, p, k, at, n, now)
	}
	if err := (&Request{ID: id}).check(p); err != nil {
		return 0, err
	}
	if once, ok := e.(RefundOnceEngine); ok {
		return once.RefundOnce(ctx, p, k, at, n, now, id)
	}
	return 0, fmt.Errorf("%w: an engine of type %T remembers no refunds; leave the id out", ErrID, e)
}

// LimitNamed returns the index of the limit of that name, or -1.
func (p *Plan) LimitNamed(name string) int {
	for i := range p.limits {
		if p.limits[i].Name == name {
			return i
		}
	}
	return -1
}

// instant converts an instant the caller passed to microseconds, or ErrInstant.
func instant(t time.Time) (int64, error) {
	if s := t.Unix(); s < 0 || s > MaxUnits/1_000_000 { // far away, microseconds overflow
		return 0, ErrInstant
	}
	at := t.UnixMicro()
	if at > MaxUnits {
		return 0, ErrInstant
	}
	return at, nil
}
