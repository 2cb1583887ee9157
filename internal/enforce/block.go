package enforce

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy"
)

// blocks remember which keys of a policy are blocked, as histories of limits of
// their own: at most one block begins in any time that it lasts, and the attempt
// that is granted it begins it. So a block ends by itself, to the microsecond, on
// every engine, and of several that would begin it at once one does.
//
// To look at the blocks, to decide, and to begin a block are steps of their own, not
// one: of attempts that are under way together when a block begins, some may still be
// decided by the limits, as they would be without blocks. Hence no window ever holds
// more than Max for it.
type blocks struct {
	all   *weir.Limiter   // of every limit that blocks: for looks and resets
	one   []*weir.Limiter // to begin a block of that limit alone; nil where it has none
	key   [][]int         // of each of one: which values of the policy's key are its key
	look  []int           // the same of all
	known *weir.Limiter   // on the policy's histories, grants nothing but what it has granted before
}

// newBlocks returns nil for a policy without blocks. base is its own plan.
func newBlocks(p *policy.Policy, base *weir.Plan, e weir.Engine) (*blocks, error) {
	if p.Blocks == nil {
		return nil, nil
	}
	if f, ok := e.(*weir.FallbackEngine); ok && p.WhenStoreIsDown == policy.Local {
		// A share of one block is none, and that would refuse everybody.
		e = f.WithMode(weir.FailOpen)
	}
	b := &blocks{one: make([]*weir.Limiter, len(p.Limits)), key: make([][]int, len(p.Limits))}
	all := weir.Policy{Name: p.BlocksName()}
	for i := range p.Limits {
		if p.BlockOf(i) > 0 {
			all.Limits = append(all.Limits, blockOf(p, i))
		}
	}
	var err error
	if b.all, b.look, err = b.limiter(all, base, e); err != nil {
		return nil, err
	}
	for i := range p.Limits {
		if p.BlockOf(i) == 0 {
			continue
		}
		alone := weir.Policy{Name: all.Name, Limits: append([]weir.Limit{blockOf(p, i)}, anchor(all.Limits, i, p)...)}
		if b.one[i], b.key[i], err = b.limiter(alone, base, e); err != nil {
			return nil, err
		}
	}
	b.known, err = knowing(p, e)
	return b, err
}

// blockOf is the limit of which limit i's blocks are histories.
func blockOf(p *policy.Policy, i int) weir.Limit {
	return weir.Limit{Name: p.Limits[i].Name, Max: 1, Window: p.BlockOf(i), By: p.Limits[i].By}
}

// anchor is what stands beside the block of limit i when it begins alone, so that a
// Redis Cluster finds it where it looks at all of them: it places a policy by the
// dimensions that its limits have in common. It is nothing where those are the same.
func anchor(all []weir.Limit, i int, p *policy.Policy) []weir.Limit {
	shared := slices.Clone(p.Limits[i].By)
	for _, l := range all {
		shared = slices.DeleteFunc(shared, func(dim string) bool { return !slices.Contains(l.By, dim) })
	}
	if len(shared) == len(p.Limits[i].By) {
		return nil
	}
	name := "anchor"
	for slices.ContainsFunc(all, func(l weir.Limit) bool { return l.Name == name }) {
		name += "-"
	}
	return []weir.Limit{{Name: name, Max: weir.MaxUnits, Window: weir.MinWindow, By: shared}}
}

// limiter compiles a policy of blocks, and finds its key in the key of base.
func (b *blocks) limiter(p weir.Policy, base *weir.Plan, e weir.Engine) (l *weir.Limiter, key []int, err error) {
	if l, err = weir.New(p, weir.WithEngine(e)); err != nil {
		return nil, nil, err
	}
	for _, dim := range l.Plan().Dimensions() {
		key = append(key, slices.Index(base.Dimensions(), dim))
	}
	return l, key, nil
}

// knowing makes the limiter of the policy with room for nothing. An attempt by it is
// answered by what it was granted before under the same id, or refused, and changes
// nothing.
func knowing(p *policy.Policy, e weir.Engine) (*weir.Limiter, error) {
	none := p.Policy
	none.Mode, none.Limits = weir.AllOrNothing, slices.Clone(p.Limits)
	for i := range none.Limits {
		none.Limits[i].Max = 0
	}
	return weir.New(none, weir.WithEngine(e))
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

// part is the key of those values.
func part(k *weir.Key, of []int) weir.Key {
	var room [weir.MaxDimensions]string
	values := room[:0]
	for _, i := range of {
		values = append(values, k.Value(i))
	}
	return weir.K(values...)
}

// block is one that a look or an attempt has found, or begun.
type block struct {
	limit string
	until time.Time // the first instant that it does not refuse; zero = there is none
}

// running looks for a block of the key.
func (b *blocks) running(ctx context.Context, a *Ask) (found block, err error) {
	d, err := b.all.Decide(ctx, part(&a.Key, b.look), weir.Ask{Op: weir.OpPeek, N: 1, At: a.At})
	if err == nil && !d.Allowed {
		found = block{d.Limit, d.At.Add(d.RetryAfter)}
	}
	return found, err
}

// begin begins a block of limit i at the instant of the refusal d, unless one runs.
// It returns the one that runs now, and the instant of its own step.
func (b *blocks) begin(ctx context.Context, a *Ask, i int, d *weir.Decision) (begun block, at time.Time, err error) {
	now := int64(weir.Now)
	if a.At != weir.Now {
		now = d.At.UnixMicro()
	}
	h, err := b.one[i].Decide(ctx, part(&a.Key, b.key[i]), weir.Ask{Op: weir.OpAttempt, N: 1, At: now})
	if err != nil || h.Degraded { // what a fallback answers it does not remember
		return begun, d.At, err
	}
	return block{b.one[i].Plan().Limits()[0].Name, h.At.Add(h.RetryAfter)}, h.At, nil
}

// decideBlocked is ask for a policy with blocks. The blocks are looked at first,
// and begun by an attempt that a limit with one refuses.
func (r *Rule) decideBlocked(ctx context.Context, o *Outcome, a *Ask) (weir.Decision, error) {
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
	if err != nil || d.Repeated {
		return d, err
	}
	if a.Op == weir.OpRecord {
		o.cover(&d, a.States, found)
		return d, nil
	}
	i := o.Limiter.Plan().LimitNamed(d.Limit)
	if d.Allowed || a.Op != weir.OpAttempt || a.N == 0 || i < 0 || r.blocks.one[i] == nil {
		return d, nil
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
func (r *Rule) refuseBlocked(ctx context.Context, o *Outcome, op weir.Op, a *Ask, by block) (d weir.Decision, runs bool, err error) {
	if a.ID != "" && op == weir.OpAttempt {
		if d, err = r.blocks.known.Decide(ctx, a.Key, weir.Ask{Op: op, N: a.N, At: a.At, ID: a.ID}); err != nil || d.Repeated {
			clear(a.States)
			return d, true, err
		}
	}
	d, err = o.Limiter.Decide(ctx, a.Key, weir.Ask{Op: weir.OpPeek, N: a.N, At: a.At, States: a.States, ID: a.ID})
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
		sooner(&s.RetryAfter, &s.NextAfter, &s.GapAfter, &s.ResetAfter)
	}
}

// Reset forgets the histories of a key, and ends its blocks.
func (r *Rule) Reset(ctx context.Context, key weir.Key) error {
	if err := r.Base().Limiter.Reset(ctx, key); err != nil || r.blocks == nil {
		return err
	}
	return r.blocks.all.Reset(ctx, part(&key, r.blocks.look))
}
