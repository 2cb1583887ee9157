package enforce

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// decideBlocked is ask for a policy with blocks. The blocks are looked at first,
// and begun by an attempt that a limit with one refuses.
func (r *Rule) decideBlocked(ctx context.Context, o *Outcome, a *Request) (weir.Decision, error) {
	op := r.op(a.Op)
	if !r.fits(&a.Key) {
		return o.ask(ctx, op, a) // which says what is wrong with it
	}
	found, err := r.blocks.running(ctx, a)
	if err != nil {
		return weir.Decision{}, err
	}
	if !found.until.IsZero() && op != weir.OpRecord {
		d, runs, err := r.refuseBlocked(ctx, o, op, a, found)
		if err != nil || runs {
			return d, err
		}
	}
	d, err := o.ask(ctx, op, a)
	if err != nil || d.Replayed {
		return d, err
	}
	if a.Op == weir.OpRecord {
		o.cover(&d, a.States, found)
		return d, nil
	}
	i := o.Limiter.Plan().LimitNamed(d.Limit)
	if d.Allowed || d.Degraded || a.Op != weir.OpAttempt || a.N == 0 || i < 0 || r.blocks.one[i] == nil {
		return d, nil // of what a fallback refuses, the store has nothing to remember
	}
	begun, at, err := r.blocks.begin(ctx, a, i, &d)
	switch {
	case err != nil && r.Mode == weir.CountDenied:
		return weir.Decision{}, fmt.Errorf("%w: the refusal was counted, and no block begun: %w", weir.ErrUnknownFate, err)
	case err != nil:
		return weir.Decision{}, err
	case r.Mode != weir.CountDenied: // there, what was recorded has the instant of d, for refunds
		rebase(&d, a.States, at)
	}
	o.cover(&d, a.States, begun)
	return d, nil
}

// refuseBlocked refuses what asks while a block runs. It reports false if the block has
// ended by the instant at which the limits are looked at.
func (r *Rule) refuseBlocked(ctx context.Context, o *Outcome, op weir.Op, a *Request, by block) (d weir.Decision, runs bool, err error) {
	if a.ID != "" && op == weir.OpAttempt {
		if d, err = r.blocks.known.Decide(ctx, a.Key, weir.Request{Op: op, N: a.N, At: a.At, ID: a.ID}); err != nil || d.Replayed {
			clear(a.States)
			return d, true, err
		}
	}
	d, err = o.Limiter.Decide(ctx, a.Key, weir.Request{Op: weir.OpPeek, N: a.N, At: a.At, States: a.States, ID: a.ID})
	if err != nil || !by.until.After(d.At) {
		return d, err != nil, err
	}
	d.Allowed, d.Granted, d.Limit = false, 0, by.limit
	o.cover(&d, a.States, by)
	return d, true, nil
}

// cover lets a decision tell of a block, if there is one: nothing is left, and all
// waits last as long as it, at least. So does the state of the block's limit, but
// for what it has used.
func (o *Outcome) cover(d *weir.Decision, states []weir.LimitState, by block) {
	rest := by.until.Sub(d.At)
	if by.until.IsZero() || rest <= 0 {
		return
	}
	o.Applied.Blocked = by.until
	if !d.Allowed {
		d.Limit = by.limit
	}
	d.Remaining, d.RetryAfter, d.ResetAfter = min(d.Remaining, 0), longer(d.RetryAfter, rest), max(d.ResetAfter, rest)
	for i := range states {
		if s := &states[i]; s.Name == by.limit {
			s.Remaining, s.RetryAfter, s.ResetAfter = min(s.Remaining, 0), longer(s.RetryAfter, rest), max(s.ResetAfter, rest)
			s.NextAfter = max(s.NextAfter, rest)
		}
	}
}

// longer is the longer of two waits, the first of which may be weir.Never.
func longer(a, b time.Duration) time.Duration {
	if a == weir.Never {
		return a
	}
	return max(a, b)
}

// rebase makes a refusal one of a later instant: its waits end when they ended.
func rebase(d *weir.Decision, states []weir.LimitState, at time.Time) {
	later := at.Sub(d.At)
	if later <= 0 {
		return
	}
	d.At = at
	sooner := func(waits ...*time.Duration) {
		for _, w := range waits {
			if *w != weir.Never {
				*w = max(0, *w-later)
			}
		}
	}
	sooner(&d.RetryAfter, &d.ResetAfter)
	for i := range states {
		s := &states[i]
		sooner(&s.RetryAfter, &s.NextAfter, &s.MinIntervalAfter, &s.ResetAfter)
	}
}

// Reset forgets the histories of a key, and ends its blocks.
func (r *Rule) Reset(ctx context.Context, key weir.Key) error {
	if err := r.Base().Limiter.Reset(ctx, key); err != nil || r.blocks == nil {
		return err
	}
	return r.blocks.all.Reset(ctx, part(&key, r.blocks.look))
}

// fits reports whether a key has the values that the policy counts by (R14).
func (r *Rule) fits(k *weir.Key) bool {
	if k.Len() != len(r.dimensions) {
		return false
	}
	for i := range k.Len() {
		if len(k.Value(i)) > weir.MaxValueBytes {
			return false
		}
	}
	return true
}
