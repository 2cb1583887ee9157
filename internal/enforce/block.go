package enforce

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// blocks stores the blocked keys of a policy, as histories of limits of their own. Such a
// limit allows one unit per length of the block, and a block begins with the attempt that
// gets this unit. So a block ends by itself, to the microsecond, on every engine. Of
// several attempts that would begin it together, one does.
//
// Looking for a block, deciding and beginning a block are three steps, not one. Attempts
// in flight while a block begins may still be decided by the limits alone, as without
// blocks. So blocks never let a window hold more than Max.
type blocks struct {
	combined *blockLimiter   // all limits that block, for peeks and resets; each with its window as MinInterval, so that a block denies a peek of 0 units
	single   []*blockLimiter // by limit: begins a block of that limit; nil if it does not block
}

// blockLimiter is a limiter of blocks.
type blockLimiter struct {
	*weir.Limiter
	values []int // for each value of its key, the index in the policy's key
}

// keyOf returns the limiter's key for a key of the policy.
func (l *blockLimiter) keyOf(k *weir.Key) weir.Key {
	var few [weir.MaxDimensions]string
	values := few[:0]
	for _, i := range l.values {
		values = append(values, k.Value(i))
	}
	return weir.K(values...)
}

// newBlocks returns nil for a policy without blocks. base has its own numbers.
func newBlocks(p *policy.Definition, base *engine.Compiled, e engine.Engine) (*blocks, error) {
	if p.Blocks == nil {
		return nil, nil
	}
	b := &blocks{single: make([]*blockLimiter, len(p.Limits))}
	var all []weir.Limit
	var err error
	for i := range p.Limits {
		if p.BlockOf(i) == 0 {
			continue
		}
		limit := weir.Limit{Name: p.Limits[i].Name, Max: 1, Window: p.BlockOf(i), By: p.Limits[i].By}
		if b.single[i], err = newBlockLimiter(p, []weir.Limit{limit}, base, e); err != nil {
			return nil, err
		}
		limit.MinInterval = limit.Window
		all = append(all, limit)
	}
	b.combined, err = newBlockLimiter(p, all, base, e)
	return b, err
}

// newReplay returns a limiter on the policy's own histories that grants nothing and changes
// nothing, but returns the earlier grant of an idempotency key. It has the windows and rates
// of the policy, because even a denied attempt stores other ones (R12).
func newReplay(p *policy.Definition, e engine.Engine) (*weir.Limiter, error) {
	none := weir.Policy{Name: p.Name, Limits: slices.Clone(p.Limits), Dimensions: p.Dimensions()}
	for i := range none.Limits {
		if l := &none.Limits[i]; answer.IsBucket(l.Kind) {
			l.Burst, l.Cost = 1, 2 // more than ever fits
		} else {
			l.Max = 0
		}
	}
	return weir.New(none, weir.WithEngine(e), weir.WithOutage(p.WhenStoreIsDown))
}

// newBlockLimiter compiles the limits of blocks. base has the policy's dimensions.
func newBlockLimiter(p *policy.Definition, limits []weir.Limit, base *engine.Compiled, e engine.Engine) (*blockLimiter, error) {
	limits = append(limits[:len(limits):len(limits)], anchor(limits, p)...)
	outage := p.WhenStoreIsDown
	if outage == engine.OutageShare {
		outage = engine.OutageAllow // the share of one unit is 0, which would deny every attempt
	}
	of := policy.Definition{Limits: limits}
	l, err := weir.New(weir.Policy{Name: p.BlocksName(), Limits: limits, Dimensions: of.Dimensions()}, weir.WithEngine(e), weir.WithOutage(outage))
	if err != nil {
		return nil, err
	}
	b := &blockLimiter{Limiter: l}
	for _, dim := range l.Compiled().Dimensions {
		b.values = append(b.values, slices.Index(base.Dimensions, dim))
	}
	return b, nil
}

// anchor returns a limit that fixes the place of blocks in a Redis Cluster, which places
// histories by the dimensions that all limits share. The anchor makes these the shared
// dimensions of the policy. So blocks keep their place when other limits gain or lose a
// block, and combined and single find the same histories. It is empty where the shared
// dimensions agree already.
func anchor(blocking []weir.Limit, p *policy.Definition) []weir.Limit {
	shared := sharedDimensions(p.Limits)
	if len(shared) == len(sharedDimensions(blocking)) {
		return nil
	}
	name := "anchor"
	for slices.ContainsFunc(p.Limits, func(l weir.Limit) bool { return l.Name == name }) {
		name += "-"
	}
	return []weir.Limit{{Name: name, Max: weir.MaxUnits, Window: weir.MinWindow, By: shared}}
}

// sharedDimensions returns the dimensions that all of the limits count by.
func sharedDimensions(limits []weir.Limit) []string {
	shared := slices.Clone(limits[0].By)
	for _, l := range limits[1:] {
		shared = slices.DeleteFunc(shared, func(dim string) bool { return !slices.Contains(l.By, dim) })
	}
	return shared
}

// block is a running block.
type block struct {
	limit string
	until time.Time // the first instant after the block; zero if there is no block
}

// find looks for a running block of the key.
func (b *blocks) find(ctx context.Context, a *Request) (found block, err error) {
	d, err := (&weir.Call{Limiter: b.combined.Limiter, Key: b.combined.keyOf(&a.Key), Op: engine.Peek, Request: weir.Request{N: 1, At: a.At}}).Do(ctx)
	if err == nil && !d.Allowed {
		found = block{d.Limit, d.At.Add(d.RetryAfter)}
	}
	return found, err
}

// begin begins a block of limit i at the instant of the denial d, unless one is running.
// It returns the block that runs now and the instant of its own step. The store decides,
// because a cached denial may be of a block that another process has ended.
func (b *blocks) begin(ctx context.Context, a *Request, i int, d *weir.Decision) (begun block, at time.Time, err error) {
	var now time.Time
	if !a.At.IsZero() {
		now = d.At
	}
	l := b.single[i]
	states := statesFor(nil, l.Limiter) // so that no cached denial answers (R8)
	h, err := (&weir.Call{Limiter: l.Limiter, Key: l.keyOf(&a.Key), Op: engine.Attempt, Request: weir.Request{N: 1, At: now, States: states}}).Do(ctx)
	if err != nil || h.Degraded { // a degraded decision is not stored, so no block has begun
		return begun, d.At, err
	}
	return block{d.Limit, h.At.Add(h.RetryAfter)}, h.At, nil
}

// reset ends the blocks of limits with these names for a key of these dimensions.
func (b *blocks) reset(ctx context.Context, key *weir.Key, dimensions, names []string) error {
	blocked := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return b.combined.Compiled().LimitNamed(name) < 0
	})
	if len(blocked) == 0 {
		return nil
	}
	rules, err := b.combined.Compiled().Resets(blocked)
	if err != nil {
		return err
	}
	var k weir.Key
	for _, name := range rules.Dimensions {
		k.Append(key.Value(slices.Index(dimensions, name)))
	}
	_, err = b.combined.Reset(ctx, k, blocked...)
	return err
}

// decideWithBlocks is decideLimits for a policy with blocks: it looks for a running
// block, decides, and begins a block if a limit that blocks denies an attempt. c is the
// call of the limiter for a.
func (r *Rule) decideWithBlocks(ctx context.Context, o *Outcome, a *Request, c *weir.Call) (weir.Decision, error) {
	if err := c.Check(); err != nil { // before the key is projected
		return weir.Decision{}, err
	}
	found, err := r.blocks.find(ctx, a)
	if err != nil {
		return weir.Decision{}, err
	}
	if !found.until.IsZero() && !a.records() {
		d, running, err := o.denyBlocked(ctx, a, c, found)
		if err != nil || running {
			return d, err
		}
	}
	d, err := o.decideLimits(ctx, a, c)
	if d.Cached { // a block would outlast it, and another process may have reset the key
		c.Request.States = statesFor(nil, o.Limiter) // so that no cached denial answers (R8)
		d, err = o.decideLimits(ctx, a, c)
	}
	if err != nil || d.Replayed {
		return d, err
	}
	if a.records() {
		o.applyBlock(&d, c.Request.States, found)
		return d, nil
	}
	i := o.Limiter.Compiled().LimitNamed(d.Limit)
	if d.Allowed || d.Degraded || a.Op != engine.Attempt || a.N == 0 || i < 0 || r.blocks.single[i] == nil {
		return d, nil // a degraded denial begins no block, because the store cannot hold it
	}
	begun, at, err := r.blocks.begin(ctx, a, i, &d)
	switch {
	case err != nil && r.Mode == weir.CountDenied:
		return weir.Decision{}, fmt.Errorf("%w: the denial was counted, but no block has begun: %w", weir.ErrOutcomeUnknown, err)
	case err != nil:
		return weir.Decision{}, err
	case r.Mode != weir.CountDenied: // a counted denial keeps its instant, which refunds name
		shiftTo(at, &d, c.Request.States)
	}
	o.applyBlock(&d, c.Request.States, begun)
	return d, nil
}

// denyBlocked denies a request during a block. It reports false if the block has ended
// at the instant of the limits' states. A request that repeats the idempotency key of an
// earlier grant gets that grant.
func (o *Outcome) denyBlocked(ctx context.Context, a *Request, c *weir.Call, by block) (d weir.Decision, running bool, err error) {
	if c.Request.ID != "" && c.Op == engine.Attempt {
		replay := *c
		replay.Limiter, replay.Request.States = o.replay, nil
		if d, err = replay.Do(ctx); err != nil || d.Replayed {
			clear(c.Request.States)
			if err == nil && d.Allowed && a.Reserve { // the reservation of the first grant
				d, err = o.decideLimits(ctx, a, c)
			}
			return d, true, err
		}
	}
	peek := *c
	peek.Op = engine.Peek
	d, err = peek.Do(ctx)
	if err != nil || !by.until.After(d.At) {
		return d, err != nil, err
	}
	d.Allowed, d.Granted, d.Limit = false, 0, by.limit
	o.applyBlock(&d, c.Request.States, by)
	return d, true, nil
}

// applyBlock adds a running block to a decision: Remaining is at most 0, and every wait
// lasts at least as long as the block. The state of the block's limit changes alike,
// except Used.
func (o *Outcome) applyBlock(d *weir.Decision, states []weir.LimitState, by block) {
	rest := by.until.Sub(d.At)
	if by.until.IsZero() || rest <= 0 {
		return
	}
	o.Applied.Blocked = by.until
	if !d.Allowed {
		d.Limit = by.limit
	}
	d.Remaining = min(d.Remaining, 0)
	d.RetryAfter = max(d.RetryAfter, rest)
	d.ResetAfter = max(d.ResetAfter, rest)
	for i := range states {
		if s := &states[i]; s.Name == by.limit {
			s.Remaining = min(s.Remaining, 0)
			s.RetryAfter = max(s.RetryAfter, rest)
			s.NextAfter = max(s.NextAfter, rest)
			s.ResetAfter = max(s.ResetAfter, rest)
		}
	}
}

// shiftTo moves a denial to a later instant. Its waits end when they ended before.
func shiftTo(at time.Time, d *weir.Decision, states []weir.LimitState) {
	later := at.Sub(d.At)
	if later <= 0 {
		return
	}
	d.At = at
	shorten := func(waits ...*time.Duration) {
		for _, w := range waits {
			if *w != weir.Never {
				*w = max(0, *w-later)
			}
		}
	}
	shorten(&d.RetryAfter, &d.ResetAfter)
	for i := range states {
		s := &states[i]
		shorten(&s.RetryAfter, &s.NextAfter, &s.MinIntervalAfter, &s.ResetAfter)
	}
}
