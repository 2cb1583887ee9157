package weirtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

// Faulty is an engine around another that can be broken and restored. It tests a program
// with a store that is slow or unreachable:
//
//	store := weirtest.NewFaulty(weir.NewMemory())
//	engine := fallback.New(store, fallback.Allow)
//	store.Break(weirtest.Down())
//
// It is safe for concurrent use and works in virtual time (testing/synctest).
type Faulty struct {
	engine weir.Engine
	fault  atomic.Pointer[Fault]
	calls  atomic.Int64
}

// Fault replaces the calls of a broken engine. call makes the call on the inner engine; a
// fault that returns nil must have called it exactly once. Calls counts the call before
// the fault begins.
type Fault func(ctx context.Context, call func()) error

// NewFaulty returns an engine that behaves like e until it is broken.
func NewFaulty(e weir.Engine) *Faulty { return &Faulty{engine: e} }

// Break applies the fault to every call from now on.
func (f *Faulty) Break(fault Fault) { f.fault.Store(&fault) }

// Restore ends the fault for calls from now on. Calls in flight keep it.
func (f *Faulty) Restore() { f.fault.Store(nil) }

// Calls returns the number of calls begun, of all methods together.
func (f *Faulty) Calls() int64 { return f.calls.Load() }

// Down is a store that refuses connections. Calls fail with weir.ErrUnavailable and record
// nothing.
func Down() Fault {
	return func(context.Context, func()) error {
		return fmt.Errorf("%w: weirtest: down", weir.ErrUnavailable)
	}
}

// Silent is a store that accepts calls and never answers. Calls record nothing and end with
// their contexts.
func Silent() Fault {
	return func(ctx context.Context, _ func()) error {
		<-ctx.Done()
		return ctx.Err()
	}
}

// Lost is a store that loses its answers. It records, and calls fail with
// weir.ErrOutcomeUnknown.
func Lost() Fault {
	return func(_ context.Context, call func()) error {
		call()
		return fmt.Errorf("%w: weirtest: the answer was lost", weir.ErrOutcomeUnknown)
	}
}

// Slow is a store that needs d for every call. A call is not made
// if its context ends before.
func Slow(d time.Duration) Fault {
	return func(ctx context.Context, call func()) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			call()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// do makes the call, or lets the fault make it.
func (f *Faulty) do(ctx context.Context, call func() error) (err error) {
	f.calls.Add(1)
	fault := f.fault.Load()
	if fault == nil {
		return call()
	}
	if err := (*fault)(ctx, func() { err = call() }); err != nil {
		return err
	}
	return err
}

// through returns the result of a call, or the zero value and an error.
func through[T any](ctx context.Context, f *Faulty, call func() (T, error)) (result T, err error) {
	err = f.do(ctx, func() (err error) { result, err = call(); return err })
	if err != nil {
		result = *new(T)
	}
	return result, err
}

// Decide calls the inner engine, or fails.
func (f *Faulty) Decide(ctx context.Context, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
	return through(ctx, f, func() (weir.Decision, error) { return f.engine.Decide(ctx, p, k, r) })
}

// Refund calls the inner engine, or fails.
func (f *Faulty) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	return through(ctx, f, func() (int64, error) { return f.engine.Refund(ctx, p, k, at, n, now) })
}

// RefundOnce calls the inner engine, which must be a weir.RefundOnceEngine, or fails.
func (f *Faulty) RefundOnce(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64, id string) (int64, error) {
	once := f.engine.(weir.RefundOnceEngine)
	return through(ctx, f, func() (int64, error) { return once.RefundOnce(ctx, p, k, at, n, now, id) })
}

// Count calls the inner engine, or fails.
func (f *Faulty) Count(ctx context.Context, p *weir.Plan, k weir.Key, i int, last, now int64) (int64, error) {
	return through(ctx, f, func() (int64, error) { return f.engine.Count(ctx, p, k, i, last, now) })
}

// Reset calls the inner engine, or fails.
func (f *Faulty) Reset(ctx context.Context, p *weir.Plan, k weir.Key) error {
	return f.do(ctx, func() error { return f.engine.Reset(ctx, p, k) })
}
