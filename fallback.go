package weir

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// OutageMode is what becomes of decisions that the store cannot make (R15).
type OutageMode uint8

const (
	// FailClosed returns the error: no decision, nothing allowed. The promise of
	// the limits holds, the work waits.
	FailClosed OutageMode = iota

	// FailOpen allows everything that an empty store would allow, and records
	// nothing: attempts of more than a limit's Max are refused, as ever. The work
	// goes on, and no limit holds for as long as the outage lasts.
	FailOpen

	// Local lets each process decide by a share of every limit, in its own memory.
	// With Instances(I), shares of Max/I rounded down, and at most I processes that
	// run through the outage, a window holds at most 2 x Max: one granted by the
	// store and one by the shares; with Hold, at most Max. A Gap is kept within
	// each process, not between them.
	Local
)

// String returns the name of the mode's constant.
func (m OutageMode) String() string {
	switch m {
	case FailClosed:
		return "FailClosed"
	case FailOpen:
		return "FailOpen"
	case Local:
		return "Local"
	}
	return fmt.Sprintf("OutageMode(%d)", uint8(m))
}

// FallbackEngine is an Engine around the Engine of a store: it says what happens
// when the store is slow or gone. While the store answers, so does it, word for
// word. It adds three things:
//
//   - A budget. Every call is answered within it (Budget).
//   - A breaker. After a few failures in a row the store is not asked any more,
//     except by one call at a time that finds out whether it is back (OpenAfter).
//     A key that cannot be read (ErrUnreadable) is none of them.
//   - A mode. What the store does not decide is decided by the OutageMode, and
//     the answer says Degraded.
//
// What a mode answers for a store that is out:
//
//   - A decision: see the modes. In FailOpen its Remaining, ResetAfter and States
//     are zero, since nobody knows them. In Local they are those of the share, and
//     States take the shares of the other processes as used. RetryAfter is a
//     second where the share can never grant what the store could.
//   - A record: allowed. FailOpen forgets it, Local records it in the share.
//   - Refund, Count and Reset: an error in every mode, since only the store knows.
//     Reset also forgets what the share has recorded for the key, outage or not.
//
// Errors that say something about the call and not about the store are returned
// as they are, in every mode: bad input (R14), ErrOverflow and ErrFull. So is the
// error of the caller's own context: whoever has left is granted nothing, and it
// says nothing about the store.
//
// A call that got no answer in time may have been recorded all the same
// (ErrUnknownFate). It is never put a second time. FailOpen and Local answer it
// like any other, and then it may be counted by both.
//
// A panic of the store's engine is the caller's, unless it comes when the caller
// has left: then, as with any goroutine, it ends the program.
type FallbackEngine struct {
	store *guard
	mode  OutageMode
}

// Fallback returns an engine that decides by e and, while e cannot, by mode. An
// unknown mode is FailClosed. It panics if e is nil.
//
// A Limit whose Max is below Instances has a share of 0 units in mode Local, and
// refuses everything while the store is out: more could be too many in sum.
// AtLeastOne and ShareOf choose otherwise.
func Fallback(e Engine, mode OutageMode, opts ...FallbackOption) *FallbackEngine {
	if e == nil {
		panic("weir: Fallback of no engine; what is it to fall back from?")
	}
	s := settings{budget: 50 * time.Millisecond, after: 5, instances: 1}
	for _, o := range opts {
		o(&s)
	}
	g := &guard{engine: e, budget: s.budget, start: time.Now(), waits: true}
	g.share = sync.OnceValue(func() *share { return newShare(&s) })
	g.breaker = breaker{after: s.after, clock: g.now, hear: s.hear, since: g.start}
	switch e := e.(type) {
	case *Memory:
		g.waits = false
	case PromptEngine:
		g.prompt = e.EndsWithContext()
	}
	if s.hold {
		g.hold = newHold(s.budget)
	}
	return &FallbackEngine{store: g, mode: mode}
}

// WithMode returns an engine of another mode on the same store, with the same
// options, breaker and shares: for policies that want different things of one store.
func (f *FallbackEngine) WithMode(mode OutageMode) *FallbackEngine {
	return &FallbackEngine{store: f.store, mode: mode}
}

// Decide answers by the store or, while it is out, by the mode.
func (f *FallbackEngine) Decide(ctx context.Context, p *Plan, k Key, a Ask) (Decision, error) {
	q := question{method: decides, plan: p, key: k, ask: a}
	if f.mode == Local && a.names() {
		if d, known, err := f.recall(&q); known {
			return d, err
		}
	}
	if f.mode == Local && f.store.hold != nil && a.Op != OpRecord {
		return f.decideHeld(ctx, &q)
	}
	var r reply
	if f.store.ask(ctx, &q, &r) {
		if r.err != nil {
			return Decision{}, r.err
		}
		return r.decision, nil
	}
	return f.fall(&q, r.err)
}

// fall decides without the store, of which cause is the error.
func (f *FallbackEngine) fall(q *question, cause error) (d Decision, err error) {
	switch f.mode {
	case FailOpen:
		d = openDecision(q.plan, &q.ask)
	case Local:
		if err := f.decideLocally(q, &d); err != nil {
			return Decision{}, err
		}
	default:
		return Decision{}, cause
	}
	f.store.degraded.Add(1)
	return d, nil
}

// Refund is that of the store. While it is out that is an error.
func (f *FallbackEngine) Refund(ctx context.Context, p *Plan, k Key, at, n, now int64) (int64, error) {
	return f.RefundOnce(ctx, p, k, at, n, now, "")
}

// RefundOnce is that of the store (RefundOnceEngine). While it is out that is an error,
// after which it can be made again. An id of "" is none.
func (f *FallbackEngine) RefundOnce(ctx context.Context, p *Plan, k Key, at, n, now int64, id string) (int64, error) {
	var r reply
	f.store.ask(ctx, &question{method: refunds, plan: p, key: k, at: at, ask: Ask{N: n, At: now, ID: id}}, &r)
	return r.units, r.err
}

// Count is that of the store. While it is out that is an error.
func (f *FallbackEngine) Count(ctx context.Context, p *Plan, k Key, i int, last, now int64) (int64, error) {
	var r reply
	f.store.ask(ctx, &question{method: counts, plan: p, key: k, limit: i, last: last, ask: Ask{At: now}}, &r)
	return r.units, r.err
}

// Reset forgets the key's histories in the store and in the share. While the
// store is out that is an error, but the share's are forgotten.
func (f *FallbackEngine) Reset(ctx context.Context, p *Plan, k Key) error {
	if f.mode == Local {
		f.store.share().reset(p, k)
	}
	var r reply
	f.store.ask(ctx, &question{method: resets, plan: p, key: k}, &r)
	return r.err
}

// EndsWithContext reports whether the engine returns when a context ends: always,
// but for an engine without a budget around one that does not.
func (f *FallbackEngine) EndsWithContext() bool {
	g := f.store
	return g.prompt || !g.waits || g.budget > 0
}
