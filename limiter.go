package weir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/shorten"
)

// Limiter applies one policy on one engine. It is safe for concurrent use. Every call of
// the zero Limiter returns an error.
type Limiter struct {
	plan     *Plan
	waitPlan *Plan // the plan of Wait: the same histories, all or nothing
	engine   Engine
	memory   *Memory       // engine, if it is a Memory
	guard    GuardedEngine // engine, if it guards a Memory
	guarded  *Memory       // that Memory
	simple   *memoryPlan   // the plan in memory, if Memory.allowSimple may decide attempts
	fixed    bool          // At made it: calls are decided at the instant at
	at       time.Time
}

// Option changes a Limiter that New makes.
type Option func(*Limiter)

// WithEngine makes the limiter decide on e instead of a memory engine of its own.
// Limiters on one engine share the histories of policies and limits with the same names
// (R12). A nil engine changes nothing.
func WithEngine(e Engine) Option {
	return func(l *Limiter) {
		if e != nil {
			l.engine = e
		}
	}
}

// New checks every field of the policy and returns its limiter. The error is a
// *PolicyError that names the limit and the field.
func New(p Policy, opts ...Option) (*Limiter, error) {
	plan, err := p.Plan()
	if err != nil {
		return nil, err
	}
	l := &Limiter{plan: plan, waitPlan: plan.allOrNothing()}
	if plan.Mode() == CountDenied {
		l.waitPlan = plan
	}
	for _, o := range opts {
		o(l)
	}
	if l.engine == nil {
		l.engine = NewMemory()
	}
	if l.memory, _ = l.engine.(*Memory); l.memory != nil {
		if b := l.memory.compiled(plan); b.simple {
			l.simple = b
		}
	}
	if g, ok := l.engine.(GuardedEngine); ok {
		if e, m := g.Guarded(); e == l.engine {
			l.guard, l.guarded = g, m
		}
	}
	return l, nil
}

// At returns a limiter that decides all calls at instant t instead of at the engine's clock
// (R1), for replay and tests. t is 1970-01-01T00:00:00Z … MaxInstant µs later, cut to whole
// microseconds. Calls at an instant out of range, such as the zero time.Time, return
// [ErrInstant], as do a wait and a reservation at any instant. Reset has no instant.
func (l *Limiter) At(t time.Time) *Limiter {
	var fixed Limiter
	if l != nil {
		fixed = *l
	}
	fixed.fixed, fixed.at, fixed.simple = true, t, nil
	return &fixed
}

// Plan returns the compiled policy.
func (l *Limiter) Plan() *Plan { return l.plan }

// Allow is AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key Key) (d Decision, err error) {
	err = l.allow(ctx, &key, 1, &d)
	return d, err
}

// AllowN decides an attempt of n units now. It records the granted units in every limit
// of the policy or in none (R7). An attempt of 0 units is a peek.
func (l *Limiter) AllowN(ctx context.Context, key Key, n int64) (d Decision, err error) {
	err = l.allow(ctx, &key, n, &d)
	return d, err
}

// allow is AllowN by reference. Allow and AllowN are inlined into their callers, which
// saves a copy of the key and one of the decision: 10 ns of 80 on a hot key.
func (l *Limiter) allow(ctx context.Context, key *Key, n int64, d *Decision) error {
	if l != nil && l.simple != nil && l.memory.allowSimple(l.simple, key, n, moment{}, nil, d) {
		return nil
	}
	return l.decide(ctx, key, &Request{Op: OpAttempt, N: n}, d)
}

// Peek returns the decision that an attempt of n units would get now, and changes
// nothing. Remaining, RetryAfter and ResetAfter are those of the present state (R4).
func (l *Limiter) Peek(ctx context.Context, key Key, n int64) (d Decision, err error) {
	err = l.decide(ctx, &key, &Request{Op: OpPeek, N: n}, &d)
	return d, err
}

// Record adds n units without a decision, for a cost that is known only afterwards. Room
// may be below 0 after it (R10). Allowed is true and Granted is n.
func (l *Limiter) Record(ctx context.Context, key Key, n int64) (d Decision, err error) {
	err = l.decide(ctx, &key, &Request{Op: OpRecord, N: n}, &d)
	return d, err
}

// Decide decides a request with all its options: an id, an instant, the state of every
// limit from the same atomic step (Request.States). Without an instant (Request.At) it
// decides now. An instant out of range returns ErrInstant. A limiter of [Limiter.At] ignores
// that of the request.
//
// r.States is nil or as long as Plan().Limits(), in their order; other lengths return
// ErrRequest. Decide clears it first, and also when it fails.
func (l *Limiter) Decide(ctx context.Context, key Key, r Request) (d Decision, err error) {
	clear(r.States) // an engine without states leaves them as they are
	if err := r.checkInstant(); err != nil {
		return d, err
	}
	if err = l.decide(ctx, &key, &r, &d); err != nil {
		clear(r.States)
	}
	return d, err
}

// Refund takes back up to n units of the entry granted at instant at (the At of its
// Decision) in every limit of the policy, never below zero. After the entry's window it
// does nothing. It returns the most units that it took in one limit (R10).
func (l *Limiter) Refund(ctx context.Context, key Key, at time.Time, n int64) (refunded int64, err error) {
	var d Decision
	err = l.decide(ctx, &key, &Request{Op: OpRefund, N: n, From: at}, &d)
	return d.Granted, err
}

// Count returns the units recorded in the limit in (now - last, now]. With Cells it
// includes every cell that overlaps the span, and with fixed windows (Kind) the whole
// open window, so the result is never too low. 0 < last <= Window (R11); last is rounded
// up to a microsecond.
func (l *Limiter) Count(ctx context.Context, key Key, limit string, last time.Duration) (int64, error) {
	if err := l.check(&key, 0); err != nil {
		return 0, err
	}
	var r Request
	if err := l.setInstant(&r); err != nil {
		return 0, err
	}
	i := l.plan.LimitNamed(limit)
	if i < 0 {
		return 0, fmt.Errorf("%w: policy %q has no limit %q", ErrUnknownLimit, l.plan.Name(), shorten.Text(limit))
	}
	if l.plan.limits[i].Kind == Bucket {
		return 0, fmt.Errorf("%w: limit %q is a token bucket, which stores no instants to count; read its room with a Peek (R16)", ErrKind, limit)
	}
	span := micros(last)
	if span < 1 || span > l.plan.limits[i].Window {
		return 0, fmt.Errorf("%w: %v; limit %q counts over more than 0 and at most %v",
			ErrRange, last, limit, l.plan.policy.Limits[i].window())
	}
	return l.engine.Count(ctx, l.plan, key, i, span, r.now())
}

// Reset forgets the key's histories of the policy, including those that the key shares
// with other keys (R10).
func (l *Limiter) Reset(ctx context.Context, key Key) error {
	if err := l.check(&key, 0); err != nil {
		return err
	}
	return l.engine.Reset(ctx, l.plan, key)
}

var errZeroLimiter = errors.New("weir: the zero Limiter decides nothing; make one with weir.New")

// check rejects bad input before it reaches the engine (R14).
func (l *Limiter) check(key *Key, n int64) error {
	if l == nil || l.plan == nil {
		return errZeroLimiter
	}
	if uint64(n) > uint64(MaxUnits) {
		return fmt.Errorf("%w: %d; use 0 to %d", ErrUnits, n, MaxUnits)
	}
	if key.n == 1 && len(l.plan.dimensions) == 1 && len(key.first[0]) <= MaxValueBytes {
		return nil
	}
	return l.plan.checkKey(key)
}

// decide writes the engine's decision to d, or the zero Decision and an error. It calls
// the memory engine directly and by reference. Through the interface the key and the
// decision are copied, which takes a third of a decision on a hot key.
func (l *Limiter) decide(ctx context.Context, key *Key, r *Request, d *Decision) (err error) {
	if err := l.check(key, r.N); err != nil {
		return err
	}
	if err := l.setInstant(r); err != nil {
		return err
	}
	if r.Op == OpRefund {
		return l.refund(ctx, key, r, d)
	}
	if r.Op > OpRecord || r.ID != "" || r.TTL != 0 || !r.From.IsZero() || r.States != nil && len(r.States) != len(l.plan.limits) {
		if err := r.check(l.plan); err != nil {
			return err
		}
	}
	if l.memory != nil {
		return l.memory.handle(l.plan, key, r, d)
	}
	if l.guard != nil {
		return l.guarded.decideGuarded(ctx, l.guard, l.plan, key, r, d)
	}
	*d, err = l.engine.Decide(ctx, l.plan, *key, *r)
	return err
}

// refund takes back units of the grant at r.From, and sets Granted and Allowed of d.
func (l *Limiter) refund(ctx context.Context, key *Key, r *Request, d *Decision) error {
	if r.TTL != 0 || r.States != nil {
		return fmt.Errorf("%w: a refund has no TTL and fills no States; leave them out", ErrRequest)
	}
	from, err := instant(r.From, "such as the At of the grant's Decision")
	if err != nil {
		return err
	}
	took := int64(0)
	if r.N > 0 {
		took, err = refundOnce(ctx, l.engine, l.plan, *key, from, r.N, r.now(), r.ID)
	}
	if err == nil {
		d.Allowed, d.Granted = true, took
	}
	return err
}

// setInstant gives the request the instant of a limiter at one.
func (l *Limiter) setInstant(r *Request) (err error) {
	if l.fixed {
		r.At = l.at
		_, err = instant(l.at, "or call the Limiter itself to decide now")
	}
	return err
}
