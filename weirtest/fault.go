package weirtest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/internal/misuse"
)

// Faulty is an engine around another that can be broken and restored. It tests a program
// with a store that is slow or unreachable:
//
//	store := weirtest.NewFaulty(weir.NewMemory())
//	engine := fallback.New(store, fallback.Allow)
//	store.Break(weirtest.Down())
//
// It is safe for concurrent use and works in virtual time (testing/synctest). Every call of the
// zero or nil Faulty is an [engine.InputError].
type Faulty struct {
	engine engine.Engine
	fault  atomic.Pointer[Fault]
	calls  atomic.Int64
}

// Fault replaces each Do of a broken engine. call makes it on the inner engine; a fault that
// returns nil must have called it exactly once. Calls counts the call before the fault
// begins.
type Fault func(ctx context.Context, call func()) error

// NewFaulty returns an engine that behaves like e until it is broken. Without e it decides
// nothing, like the zero Faulty.
func NewFaulty(e engine.Engine) *Faulty {
	if isnil.Is(e) {
		return new(Faulty)
	}
	return &Faulty{engine: e}
}

// Break applies the fault to every call from now on. A nil fault ends the present one, as
// Restore does.
func (f *Faulty) Break(fault Fault) {
	switch {
	case f == nil:
	case fault == nil:
		f.fault.Store(nil)
	default:
		f.fault.Store(&fault)
	}
}

// Restore ends the fault for calls from now on. Calls in flight keep it.
func (f *Faulty) Restore() { f.Break(nil) }

// Calls returns the number of calls of Do begun. A batch is one.
func (f *Faulty) Calls() int64 {
	if f == nil {
		return 0
	}
	return f.calls.Load()
}

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

// Slow is a store that needs d for every call. A call is not made if its context ends before.
func Slow(d time.Duration) Fault {
	return func(ctx context.Context, call func()) error {
		select {
		case <-time.After(d):
			call()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Do passes the calls to the inner engine, or fails them.
func (f *Faulty) Do(ctx context.Context, calls []engine.Call) {
	if f == nil || f.engine == nil || ctx == nil {
		misuse.Fail(ctx, calls, "weirtest.NewFaulty, around another engine")
		return
	}
	f.calls.Add(1)
	fault := f.fault.Load()
	if fault == nil {
		f.engine.Do(ctx, calls)
		return
	}
	sent := slices.Clone(calls) // the fault may fail the calls before they have an answer
	err := (*fault)(ctx, func() { f.engine.Do(ctx, sent) })
	for i := range calls {
		switch c := &calls[i]; {
		case c.Err != nil:
		case err == nil:
			c.Result, c.Err = sent[i].Result, sent[i].Err
		default:
			c.Fail(err)
		}
	}
}
