// Package spec is the executable specification of a weir engine: the rules of
// docs/semantics.md as a slow and plain program. A history is a list; each answer comes
// from a walk through all of it.
//
// The trade-off: other engines are compared with it, and it is never used itself. It
// keeps all keys for ever, copies each history it reads, and finds a wait by trying each
// instant at which the state changes. It shares no code with the engines that it checks,
// and in particular not internal/window: shared code would be a shared bug.
package spec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// Engine is a weir.Engine that follows the rules literally and slowly.
type Engine struct {
	clock func() int64

	mu        sync.Mutex // held for the whole of every decision (R7)
	histories map[string]history
	done      map[string]operation
}

// Option adjusts an Engine.
type Option func(*Engine)

// WithClock sets the engine's clock, in microseconds since 1970. The default is time.Now.
// Instants passed by callers win (R1).
func WithClock(now func() int64) Option {
	return func(e *Engine) { e.clock = now }
}

// New returns an engine without histories.
func New(opts ...Option) *Engine {
	e := &Engine{
		clock:     func() int64 { return time.Now().UnixMicro() },
		histories: map[string]history{},
		done:      map[string]operation{},
	}
	for _, o := range opts {
		o(e)
	}
	return e
}

// Decide answers an attempt, a peek or a record, at the instant that the caller gives, 1970
// included, or at that of the engine's clock (R1).
func (e *Engine) Decide(_ context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, given := a.Instant()
	if !given {
		at = e.clock()
	}
	if a.ID != "" && a.Op != weir.OpPeek && a.N > 0 {
		return e.once(p, k, a.ID, at, operation{op: a.Op, n: a.N}, a.States, func() (weir.Decision, error) {
			return e.decide(p, k, a, at)
		})
	}
	return e.decide(p, k, a, at)
}

// decide is Decide at an instant; it ignores the ID.
func (e *Engine) decide(p *weir.Plan, k weir.Key, a weir.Request, at int64) (weir.Decision, error) {
	names := namesOf(p, k, p.Limits())
	before := e.look(p.Limits(), names, at)
	granted := before.grant(p.Mode(), a)
	after := before
	if a.Op != weir.OpPeek && a.N > 0 { // R4: a peek, and an attempt of 0, write nothing
		var err error
		if after, err = before.record(p.Mode(), a, granted); err != nil {
			return weir.Decision{}, err
		}
		e.keep(names, after) // a denial stores no more than R2's correction
	}
	for i := range a.States {
		a.States[i] = after.state(i, a.N)
	}
	full := a.Op == weir.OpRecord && a.N > 0 || before.fits(a.N)
	d := weir.Decision{
		Allowed:    full || granted > 0,
		Granted:    granted,
		Remaining:  after.room(),
		RetryAfter: after.wait(a.N),
		ResetAfter: after.reset(),
		At:         time.UnixMicro(after.now),
	}
	if !full {
		d.Limit = before.bound(after, p.Mode(), a.N, granted)
	}
	return d, nil
}

// Refund takes back up to n units of the entry granted at instant at (R10).
func (e *Engine) Refund(_ context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refund(p, k, at, n, now).Granted, nil
}

// refund is Refund, with the number of units as Granted, at the instant of the
// decision. A refund that took nothing writes nothing.
func (e *Engine) refund(p *weir.Plan, k weir.Key, at, n, now int64) weir.Decision {
	names := namesOf(p, k, p.Limits())
	after, most := e.look(p.Limits(), names, now).refund(at, n)
	if most > 0 {
		e.keep(names, after)
	}
	return weir.Decision{Granted: most, At: time.UnixMicro(after.now)}
}

// Count returns the units that limit i recorded in (now - last, now] (R11). It reads the
// history of that limit alone. In fixed windows it returns all units that count, because
// the instants within a window are not stored.
func (e *Engine) Count(_ context.Context, p *weir.Plan, k weir.Key, i int, last, now int64) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	limits := p.Limits()[i : i+1]
	v := e.look(limits, namesOf(p, k, limits), now)
	if k := limits[0].Kind; k == weir.Fixed || k == weir.FixedFromFirst {
		return v.used(0), nil
	}
	return v.past[0].since(v.now - last), nil
}

// Reset forgets the histories of the key in every limit of the plan, of all kinds (R10, R12).
func (e *Engine) Reset(_ context.Context, p *weir.Plan, k weir.Key) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	limits := slices.Clone(p.Limits())
	for kind := weir.Rolling; kind <= weir.Concurrency; kind++ {
		for i := range limits {
			limits[i].Kind = kind
		}
		for _, name := range namesOf(p, k, limits) {
			delete(e.histories, name)
		}
	}
	return nil
}

// look reads the clock once (R1) and returns the state that a decision at that instant
// reads.
func (e *Engine) look(limits []weir.PlanLimit, names []string, at int64) view {
	if at == weir.Now {
		at = e.clock()
	}
	past := make([]history, len(names))
	for i, name := range names {
		past[i] = e.histories[name]
	}
	return see(limits, past, at)
}

// keep stores the histories of v under names. A denial creates none (R13).
func (e *Engine) keep(names []string, v view) {
	for i, name := range names {
		if v.past[i].tried {
			e.histories[name] = v.past[i]
		}
	}
}

// namesOf names the history of each limit: policy, limit, kind, and the dimensions that the
// limit counts by with their values (R12). Each part stands behind its length, so that no
// two tuples share a name (R14).
func namesOf(p *weir.Plan, k weir.Key, limits []weir.PlanLimit) []string {
	names := make([]string, len(limits))
	for i, limit := range limits {
		parts := []string{limit.Policy, limit.Name, limit.Kind.String()}
		for _, dim := range limit.By {
			parts = append(parts, p.Dimensions()[dim], k.Value(dim))
		}
		var b strings.Builder
		for _, part := range parts {
			fmt.Fprintf(&b, "%d:%s", len(part), part)
		}
		names[i] = b.String()
	}
	return names
}

// DecideAll decides calls in their order, at one instant.
func (e *Engine) DecideAll(ctx context.Context, calls []weir.Call) {
	now := time.UnixMicro(e.clock())
	for i := range calls {
		c := &calls[i]
		if c.Err != nil {
			continue
		}
		r := c.Request
		if r.At.IsZero() {
			r.At = now
		}
		c.Decision, c.Err = e.Decide(ctx, c.Plan, c.Key, r)
	}
}
