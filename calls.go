package weir

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/weirlimit/weir/engine"
)

// Call is one request of several, with its answer.
type Call struct {
	Limiter *Limiter
	Key     Key
	Request Request

	Decision Decision // the answer; the zero Decision with an Err
	Err      error    // as Limiter.Decide returns it
}

// DecideAll decides several calls in their order: on memory with one reading of the clock, on
// Redis in one round trip, on disk with one wait. Each has its own decision or error, that of
// [Limiter.Decide], and denials change nothing for the others. The calls may be of several
// policies and engines.
//
// [DecideTogether] charges all calls or none.
func DecideAll(ctx context.Context, calls []Call) {
	pooled := prepareAll(calls)
	defer release(pooled)
	prepared := *pooled
	for from := 0; from < len(calls); {
		to := from + 1
		for to < len(calls) && calls[to].sharesEngine(&calls[from]) {
			to++
		}
		if e := calls[from].on(); e != nil {
			e.Do(ctx, prepared[from:to])
		}
		from = to
	}
	takeAnswers(calls, prepared)
}

// Check returns the error of bad input in the call (R14), without a decision.
func (c *Call) Check() error {
	var p engine.Call
	return c.Limiter.prepare(&p, &c.Key, &c.Request)
}

// on returns the engine of the call, or nil.
func (c *Call) on() engine.Engine {
	if c.Limiter == nil {
		return nil
	}
	return c.Limiter.engine
}

// sharesEngine reports whether two calls are decided on one engine. An engine of a type that
// cannot be compared is shared by calls of one limiter only.
func (c *Call) sharesEngine(with *Call) bool {
	return c.Limiter == with.Limiter || reflect.ValueOf(c.on()).Comparable() && c.on() == with.on()
}

// prepareAll returns the calls for engines, in a slice to be released.
func prepareAll(calls []Call) *[]engine.Call {
	pooled := take(len(calls))
	for i := range calls {
		c, p := &calls[i], &(*pooled)[i]
		p.Err = c.Limiter.prepare(p, &c.Key, &c.Request)
	}
	return pooled
}

// pool holds slices of calls, because an Engine gets its calls in a slice.
var pool = sync.Pool{New: func() any { return new([]engine.Call) }}

// take returns n zero calls in a slice of the pool.
func take(n int) *[]engine.Call {
	pooled := pool.Get().(*[]engine.Call)
	*pooled = slices.Grow(*pooled, n)[:n]
	return pooled
}

// release returns a slice to the pool. It keeps no memory of the caller alive.
func release(pooled *[]engine.Call) {
	clear(*pooled)
	*pooled = (*pooled)[:0]
	pool.Put(pooled)
}

// takeAnswers sets the answers of calls.
func takeAnswers(calls []Call, prepared []engine.Call) {
	for i := range calls {
		c, p := &calls[i], &prepared[i]
		if c.Decision, c.Err = (Decision{}), p.Err; c.Err != nil {
			clear(c.Request.States)
			continue
		}
		c.Decision = answer(p)
	}
}

// CallError is bad input in one of several calls that are decided together. Nothing has
// changed.
type CallError = engine.CallError

// DecideTogether decides calls as one attempt (R7): at one instant all of their limits
// grant, or none is charged. So a transfer counts for both accounts or for neither. The
// calls may be of several policies on one engine. Units of several calls for one history are
// one entry, and its limit is charged their sum.
//
// It sets the Decision of each call. Allowed, At and RetryAfter are those of the whole.
// Remaining, ResetAfter and Request.States are those of the call's own limits. Limit is, of
// the call's own limits that denied, the one with the longest wait. It is "" in a call that
// is denied because of the others alone.
//
// The calls are attempts without an ID and at one instant. A call of 0 units is a peek: it is
// charged nothing. It denies the whole while the room of its limits is below 0 or a minimum
// interval has not passed. A policy in mode Partial is decided all or nothing, as by
// [Limiter.Wait]. A policy in mode CountDenied is rejected, because its denials change
// histories, and so is one with a concurrency limit, because nothing would end its
// hold. The calls have at most MaxLimits histories and MaxDimensions different values. Calls
// with different limits for one history are rejected, and on a Redis Cluster histories in
// different slots.
//
// After an error every Decision is the zero Decision. That of bad input is a [*CallError]
// (R14).
func DecideTogether(ctx context.Context, calls []Call) error {
	pooled := prepareAll(calls)
	defer release(pooled)
	prepared := *pooled
	for i := range calls {
		c := &calls[i]
		c.Decision, c.Err = Decision{}, nil
		if prepared[0].Err == nil && prepared[i].Err == nil && !c.sharesEngine(&calls[0]) {
			prepared[i].Err = engine.Input("request", "policy %q is on another engine than policy %q; decide the calls on one engine", c.Limiter.rules.Name, calls[0].Limiter.rules.Name)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	if err := engine.Together(ctx, calls[0].on(), prepared); err != nil {
		return err
	}
	takeAnswers(calls, prepared)
	return nil
}
