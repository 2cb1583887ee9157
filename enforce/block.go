package enforce

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
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
	look  []int           // which values of the policy's key are the key of all
	one   []*weir.Limiter // to begin a block of that limit alone; nil where it has none
	key   [][]int         // of each of one, as look
	known *weir.Limiter   // on the policy's own histories, with room for nothing
}

// newBlocks returns nil for a policy without blocks. base is its own plan.
func newBlocks(p *policy.Policy, base *weir.Plan, e weir.Engine) (*blocks, error) {
	if p.Blocks == nil {
		return nil, nil
	}
	own := e
	if f, ok := e.(*fallback.Engine); ok && p.WhenStoreIsDown == fallback.Local {
		// A share of one block is none, and that would refuse everybody.
		e = f.WithMode(fallback.FailOpen)
	}
	b := &blocks{one: make([]*weir.Limiter, len(p.Limits)), key: make([][]int, len(p.Limits))}
	all := weir.Policy{Name: p.BlocksName()}
	for i := range p.Limits {
		if p.BlockOf(i) > 0 {
			all.Limits = append(all.Limits, blockOf(p, i))
		}
	}
	blocking := all.Limits
	all.Limits = append(blocking[:len(blocking):len(blocking)], anchor(blocking, p)...)
	var err error
	if b.all, b.look, err = blockLimiter(all, base, e); err != nil {
		return nil, err
	}
	for i := range p.Limits {
		if p.BlockOf(i) == 0 {
			continue
		}
		alone := weir.Policy{Name: all.Name, Limits: []weir.Limit{blockOf(p, i)}}
		alone.Limits = append(alone.Limits, anchor(alone.Limits, p)...)
		if b.one[i], b.key[i], err = blockLimiter(alone, base, e); err != nil {
			return nil, err
		}
	}
	b.known, err = knowing(p, own)
	return b, err
}

// blockOf is the limit of which limit i's blocks are histories.
func blockOf(p *policy.Policy, i int) weir.Limit {
	return weir.Limit{Name: p.Limits[i].Name, Max: 1, Window: p.BlockOf(i), By: p.Limits[i].By}
}

// anchor is what stands beside blocks, so that a Redis Cluster keeps them where the
// histories of the policy are: it places limits by the dimensions that they have in
// common. So they stay when blocks of other limits come and go, and are found one by
// one as well as all at once. It is nothing where those dimensions are the same.
func anchor(beside []weir.Limit, p *policy.Policy) []weir.Limit {
	shared := common(p.Limits)
	if len(shared) == len(common(beside)) {
		return nil
	}
	name := "anchor"
	for slices.ContainsFunc(p.Limits, func(l weir.Limit) bool { return l.Name == name }) {
		name += "-"
	}
	return []weir.Limit{{Name: name, Max: weir.MaxUnits, Window: weir.MinWindow, By: shared}}
}

// common are the dimensions that all of the limits count by.
func common(limits []weir.Limit) []string {
	shared := slices.Clone(limits[0].By)
	for _, l := range limits[1:] {
		shared = slices.DeleteFunc(shared, func(dim string) bool { return !slices.Contains(l.By, dim) })
	}
	return shared
}

// blockLimiter compiles a policy of blocks, and finds its key in the key of base.
func blockLimiter(p weir.Policy, base *weir.Plan, e weir.Engine) (l *weir.Limiter, key []int, err error) {
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
	none.Unsupported = ""
	none.Mode, none.Limits = weir.AllOrNothing, slices.Clone(p.Limits)
	for i := range none.Limits {
		none.Limits[i].Max = 0
	}
	return weir.New(none, weir.WithEngine(e))
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
func (b *blocks) running(ctx context.Context, a *Request) (found block, err error) {
	d, err := b.all.Decide(ctx, part(&a.Key, b.look), weir.Request{Op: weir.OpPeek, N: 1, At: a.At})
	if err == nil && !d.Allowed {
		found = block{d.Limit, d.At.Add(d.RetryAfter)}
	}
	return found, err
}

// begin begins a block of limit i at the instant of the refusal d, unless one runs.
// It returns the one that runs now, and the instant of its own step.
func (b *blocks) begin(ctx context.Context, a *Request, i int, d *weir.Decision) (begun block, at time.Time, err error) {
	now := int64(weir.Now)
	if a.At != weir.Now {
		now = d.At.UnixMicro()
	}
	h, err := b.one[i].Decide(ctx, part(&a.Key, b.key[i]), weir.Request{Op: weir.OpAttempt, N: 1, At: now})
	if err != nil || h.Degraded { // what a fallback answers it does not remember
		return begun, d.At, err
	}
	return block{d.Limit, h.At.Add(h.RetryAfter)}, h.At, nil
}
