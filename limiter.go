package weir

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limiter is the front door: one policy on one engine. It is safe for
// concurrent use. The zero Limiter answers every call with an error.
type Limiter struct {
	plan   *Plan
	waits  *Plan // what Wait asks with: the same histories, all or nothing
	engine Engine
	memory *Memory        // engine, when it is one of these
	simple *memoryBinding // the plan in memory, when Memory.one may decide attempts
}

// Option adjusts a Limiter.
type Option func(*Limiter)

// WithEngine makes the limiter decide on e instead of a memory engine of its
// own. Limiters on one engine share the histories of policies and limits of the
// same names (R12). A nil engine is no option at all.
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
	l := &Limiter{plan: plan, waits: plan.whole()}
	if plan.Mode() == CountDenied {
		l.waits = plan
	}
	for _, o := range opts {
		o(l)
	}
	if l.engine == nil {
		l.engine = NewMemory()
	}
	if l.memory, _ = l.engine.(*Memory); l.memory != nil {
		if b := l.memory.binding(plan); b.simple {
			l.simple = b
		}
	}
	return l, nil
}

// Plan returns the compiled policy.
func (l *Limiter) Plan() *Plan { return l.plan }

// Allow is AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key Key) (d Decision, err error) {
	if l != nil && l.simple != nil && l.memory.one(l.simple, &key, 1, Now, &d) {
		return d, nil
	}
	err = l.decide(ctx, &key, &Request{Op: OpAttempt, N: 1, At: Now}, &d)
	return d, err
}

// AllowN decides whether n units may go ahead now, and records what it grants
// in every limit of the policy or in none (R7). An attempt of 0 units is a peek.
func (l *Limiter) AllowN(ctx context.Context, key Key, n int64) (d Decision, err error) {
	if l != nil && l.simple != nil && l.memory.one(l.simple, &key, n, Now, &d) {
		return d, nil
	}
	err = l.decide(ctx, &key, &Request{Op: OpAttempt, N: n, At: Now}, &d)
	return d, err
}

// AllowAt is AllowN at an instant the caller passes, for replay and tests (R1).
func (l *Limiter) AllowAt(ctx context.Context, key Key, n int64, at time.Time) (Decision, error) {
	return l.At(at).Allow(ctx, key, n)
}

// Peek answers as an attempt of n would be answered now, and changes nothing.
// Remaining, RetryAfter and ResetAfter are those of the state as it is (R4).
func (l *Limiter) Peek(ctx context.Context, key Key, n int64) (d Decision, err error) {
	err = l.decide(ctx, &key, &Request{Op: OpPeek, N: n, At: Now}, &d)
	return d, err
}

// Record adds n units without asking, for a cost known only afterwards; room
// can then be below 0 (R10). Allowed is true and Granted is n.
func (l *Limiter) Record(ctx context.Context, key Key, n int64) (d Decision, err error) {
	err = l.decide(ctx, &key, &Request{Op: OpRecord, N: n, At: Now}, &d)
	return d, err
}

// Refund takes back up to n units of the entry granted at instant at (the At of
// its Decision) in every limit of the policy, never below zero; after its window
// it is a no-op. It returns the most units it took back in one limit (R10).
func (l *Limiter) Refund(ctx context.Context, key Key, at time.Time, n int64) (refunded int64, err error) {
	return l.refund(ctx, &key, at, n, Now, "")
}

// Count returns the units recorded in the limit during the last d, in
// (now - d, now]; with Cells, those of every cell that overlaps it, so never too
// few, and with fixed windows (Kind) those of the whole window that is open.
// 0 < d <= Window (R11). d is rounded up to a microsecond.
func (l *Limiter) Count(ctx context.Context, key Key, limit string, last time.Duration) (int64, error) {
	return l.count(ctx, &key, limit, last, Now)
}

// Reset forgets the key's histories of the policy, those it shares with other
// keys included (R10).
func (l *Limiter) Reset(ctx context.Context, key Key) error {
	if err := l.check(&key, 0); err != nil {
		return err
	}
	return l.engine.Reset(ctx, l.plan, key)
}

// Inspect is AllowN or, with op OpPeek or OpRecord, Peek or Record, that also
// returns the state of every limit right after the decision, in the same atomic
// step. It allocates the states; InspectInto takes a slice of the caller's.
func (l *Limiter) Inspect(ctx context.Context, key Key, op Op, n int64) (d Decision, states []LimitState, err error) {
	if l == nil || l.plan == nil {
		return d, nil, errZeroLimiter
	}
	states = make([]LimitState, len(l.plan.limits))
	if d, err = l.InspectInto(ctx, key, op, n, states); err != nil {
		return d, nil, err
	}
	return d, states, nil
}

// InspectInto is Inspect that fills states, for callers that use one slice again
// and again. It is as long as Plan().Limits(), and in their order; any other
// length is an error, and nothing is decided. Whatever states held is gone,
// after an error too.
func (l *Limiter) InspectInto(ctx context.Context, key Key, op Op, n int64, states []LimitState) (d Decision, err error) {
	if l == nil || l.plan == nil {
		return d, errZeroLimiter
	}
	if states == nil {
		states = []LimitState{} // of no length, rather than not wanted
	}
	if err := (&Request{Op: op, States: states}).check(l.plan); err != nil {
		return d, err
	}
	clear(states) // an engine that could not look leaves them as they are
	if err = l.decide(ctx, &key, &Request{Op: op, N: n, At: Now, States: states}, &d); err != nil {
		clear(states)
	}
	return d, err
}

var errZeroLimiter = errors.New("weir: the zero Limiter decides nothing; make one with weir.New")

// check refuses bad input before it reaches the engine (R14).
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
	return l.plan.checkKey(*key)
}

// decide puts the engine's answer into d, which is the zero Decision when it
// fails. The memory engine is called directly, by reference: through the
// interface the key and the answer are copied, a third of a decision on a hot key.
func (l *Limiter) decide(ctx context.Context, key *Key, a *Request, d *Decision) (err error) {
	if err := l.check(key, a.N); err != nil {
		return err
	}
	if a.Op > OpRecord || a.States != nil || a.ID != "" {
		if err := a.check(l.plan); err != nil {
			return err
		}
	}
	if l.memory != nil {
		return l.memory.decide(l.plan, key, a, d)
	}
	*d, err = l.engine.Decide(ctx, l.plan, *key, *a)
	return err
}

func (l *Limiter) refund(ctx context.Context, key *Key, at time.Time, n, now int64, id string) (int64, error) {
	if err := l.check(key, n); err != nil {
		return 0, err
	}
	granted, err := instant(at)
	if err != nil {
		return 0, fmt.Errorf("%w: granted at %v", err, at)
	}
	if n == 0 {
		return 0, nil
	}
	return refundOnce(ctx, l.engine, l.plan, *key, granted, n, now, id)
}

func (l *Limiter) count(ctx context.Context, key *Key, limit string, last time.Duration, now int64) (int64, error) {
	if err := l.check(key, 0); err != nil {
		return 0, err
	}
	i := l.plan.LimitNamed(limit)
	if i < 0 {
		return 0, fmt.Errorf("%w: policy %q has no limit %q", ErrUnknownLimit, l.plan.Name(), clip(limit))
	}
	span := micros(last)
	if span < 1 || span > l.plan.limits[i].Window {
		return 0, fmt.Errorf("%w: %v; limit %q counts over more than 0 and at most %v",
			ErrRange, last, limit, l.plan.policy.Limits[i].Window)
	}
	return l.engine.Count(ctx, l.plan, *key, i, span, now)
}
