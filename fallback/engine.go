// Package fallback keeps a program deciding while its store is slow or gone (R15).
//
// An [Engine] wraps the engine of a store. While the store answers, its answers
// pass through unchanged. The wrapper adds a timeout to every call, a circuit
// breaker that stops calling a failing store, and a [Mode] that decides in the
// store's place:
//
//	store, err := weirredis.New(conn)
//	engine := fallback.New(store, fallback.Share, fallback.Instances(4))
//	limiter, err := weir.New(policy, weir.WithEngine(engine))
//
// The trade-off is availability against exactness. [Deny] keeps every limit
// and stops the work. [Allow] keeps the work going without limits. [Share] grants
// each process a share; a window across the edge of an outage holds at most twice
// Max. docs/outages.md compares them.
package fallback

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// Engine is a [weir.Engine] around the engine of a store. While the store is out:
//
//   - Decisions follow the [Mode] and are marked Degraded. In Allow, Remaining,
//     ResetAfter and the states are zero, because they are unknown. In Share they are
//     those of the share; the states count the shares of other processes as used.
//     RetryAfter is one second where the store could grant the attempt and the share
//     never can.
//   - Records are allowed. Allow drops them, Share records them in the share.
//   - Refund, Count and Reset return an error in every mode, because only the store
//     has the data. Reset also resets the share, during an outage or not.
//
// Some errors concern the call and not the store: bad input (R14), ErrOverflow,
// ErrFull, and the end of the caller's own context. They are returned unchanged in
// every mode and do not count as failures.
//
// A call without an answer may have been recorded (ErrOutcomeUnknown). It is never sent
// a second time. Allow and Share decide it like any other call, so it may count in
// the store and in the share.
type Engine struct {
	store *store
	mode  Mode
}

var _ weir.Engine = (*Engine)(nil)

// New returns an engine that decides by e and, while e cannot, by mode. It panics if
// e is nil.
//
// In mode Share a limit with a Max below [Instances] has a share of 0 units and denies
// everything during an outage.
func New(e weir.Engine, mode Mode, opts ...Option) *Engine {
	if e == nil {
		panic("fallback: New needs an engine, not nil")
	}
	o := options{timeout: 50 * time.Millisecond, failures: 5, instances: 1}
	for _, set := range opts {
		set(&o)
	}
	s := &store{engine: e, timeout: o.timeout, start: time.Now()}
	if _, ok := e.(*weir.Memory); ok {
		s.timeout = 0 // it never waits
	}
	s.share = sync.OnceValue(func() *localShare { return newShare(o.instances) })
	s.breaker = breaker{threshold: o.failures, clock: s.now, onChange: o.onState, since: s.start}
	return &Engine{store: s, mode: mode}
}

// WithMode returns an engine of another mode on the same store, with the same
// options, breaker and shares. Policies with different modes share one store this way.
func (f *Engine) WithMode(mode Mode) *Engine {
	return &Engine{store: f.store, mode: mode}
}

// Mode returns the mode of the engine.
func (f *Engine) Mode() Mode { return f.mode }

// Decide returns the store's decision or, while the store is out, that of the mode.
func (f *Engine) Decide(ctx context.Context, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
	c := call{plan: p, key: k, request: r}
	if f.mode == Share {
		if d, found, err := f.replay(&c); found {
			return d, err
		}
	}
	res, decided := f.store.do(ctx, &c)
	if decided {
		return res.decision, res.err
	}
	return f.decideWithout(&c, res.err)
}

// decideWithout decides without the store. cause is the store's error.
func (f *Engine) decideWithout(c *call, cause error) (d weir.Decision, err error) {
	switch f.mode {
	case Allow:
		d = openDecision(c.plan, &c.request)
	case Share:
		if d, err = f.store.share().decideCall(c); err != nil {
			return weir.Decision{}, err
		}
	default:
		return weir.Decision{}, cause
	}
	f.store.degraded.Add(1)
	return d, nil
}

// replay returns the earlier answer of an operation that the share has decided, and
// reports whether there is one. The store does not know that operation and would
// charge it again.
func (f *Engine) replay(c *call) (d weir.Decision, found bool, err error) {
	if c.request.ID == "" {
		return d, false, nil
	}
	if d, found, err = f.store.share().replay(c); found && err == nil {
		f.store.degraded.Add(1)
	}
	return d, found, err
}

// Refund refunds in the store. During an outage it returns an error.
func (f *Engine) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	return f.RefundOnce(ctx, p, k, at, n, now, "")
}

// RefundOnce is Refund with an idempotency key; "" is none.
func (f *Engine) RefundOnce(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64, id string) (int64, error) {
	return f.call(ctx, &call{other: func(ctx context.Context, e weir.Engine) (int64, error) {
		if id == "" {
			return e.Refund(ctx, p, k, at, n, now)
		}
		return e.(weir.RefundOnceEngine).RefundOnce(ctx, p, k, at, n, now, id)
	}})
}

// Count counts in the store. During an outage it returns an error.
func (f *Engine) Count(ctx context.Context, p *weir.Plan, k weir.Key, i int, last, now int64) (int64, error) {
	return f.call(ctx, &call{reads: true, other: func(ctx context.Context, e weir.Engine) (int64, error) {
		return e.Count(ctx, p, k, i, last, now)
	}})
}

// Reset resets the key in the store and in the share. During an outage it returns an
// error, and the share is reset nevertheless.
func (f *Engine) Reset(ctx context.Context, p *weir.Plan, k weir.Key) error {
	if f.mode == Share {
		f.store.share().reset(p, k)
	}
	_, err := f.call(ctx, &call{other: func(ctx context.Context, e weir.Engine) (int64, error) {
		return 0, e.Reset(ctx, p, k)
	}})
	return err
}

// call sends a call that only the store can answer.
func (f *Engine) call(ctx context.Context, c *call) (int64, error) {
	res, _ := f.store.do(ctx, c)
	return res.units, res.err
}

// Status describes an engine and its store, for logs, metrics and health pages.
type Status struct {
	State    StoreState
	Since    time.Time // start of State
	Cause    error     // last failure while the store is down, otherwise nil
	Failures int64     // calls that the store did not decide; calls that were not sent are not counted
	Timeouts int64     // those failures that got no answer within the timeout
	Degraded int64     // decisions made without the store
}

// Status returns the current status. It does not call the store.
func (f *Engine) Status() Status {
	s := Status{
		Failures: f.store.failures.Load(),
		Timeouts: f.store.timeouts.Load(),
		Degraded: f.store.degraded.Load(),
	}
	s.State, s.Since, s.Cause = f.store.breaker.status()
	return s
}

// Mode selects the decision for calls that the store cannot decide (R15).
type Mode uint8

const (
	// Deny returns the store's error: no decision, nothing allowed. The limits
	// hold and the work waits. An unknown mode is Deny.
	Deny Mode = iota

	// Allow allows everything that an empty store would allow and records nothing.
	// Attempts of more than a limit's Max are still denied. No limit holds during the
	// outage.
	Allow

	// Share decides by a share of every limit in the memory of this process. With
	// [Instances] of n, each share is Max/n rounded down. A window holds at most
	// 2 * Max: Max granted by the store and Max granted by all shares together.
	// MinInterval holds within each process, not between processes.
	Share
)

// String returns the name of the mode's constant.
func (m Mode) String() string {
	if m > Share {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return [...]string{"Deny", "Allow", "Share"}[m]
}
