package weir

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
)

// Call is one call of a limiter, with its answer: an attempt, or another operation with the
// options of an attempt.
type Call struct {
	Limiter *Limiter
	Key     Key
	Op      engine.Op // engine.Attempt, which is the zero Op, Peek, Probe, Record or Refund
	From    time.Time // of a Refund, the At of the grant's Decision; otherwise zero
	Request Request   // its N is 0 only for a Peek; its States are nil for a Refund

	Decision Decision // the answer; the zero Decision with an Err
	Err      error    // the reason why there is none
}

// Do makes the call by itself. It sets Decision and Err, and returns them.
//
// Of a refund, Allowed is true, Granted has the units taken back, and only Degraded and Replayed
// may be set as well. With an ID a repeated refund takes nothing more and returns the units that
// the first one took. A Peek and a Probe ignore their ID.
//
// Other operations are methods: of a [Reservation], or [Limiter.Count], [Limiter.Reset] and
// [Limiter.Block].
func (c *Call) Do(ctx context.Context) (Decision, error) {
	c.do(ctx)
	return c.Decision, c.Err
}

// do is Do without its results. Do is inlined into its callers, which saves two copies of the
// decision: 40 ns of 190 (BenchmarkDecide).
func (c *Call) do(ctx context.Context) {
	var p engine.Call
	c.Decision = Decision{}
	if c.Err = c.prepare(&p); c.Err != nil {
		return
	}
	if c.Limiter.do(ctx, &p); p.Err != nil {
		clear(c.Request.States)
		c.Err = p.Err
		return
	}
	c.Decision.answer(&p)
	if c.Op == engine.Refund && c.Decision.Granted > 0 {
		c.Limiter.releaseHolds(&c.Key)
	}
}

// prepare checks the call and copies it into p, a zero call for engines (R14).
func (c *Call) prepare(p *engine.Call) error {
	r := &c.Request
	clear(r.States)
	if err := c.Limiter.prepare(p, c.Op, &c.Key, r.N); err != nil {
		return err
	}
	switch {
	case c.Op > engine.Refund && c.Op != engine.Probe:
		return engine.Input("request",
			"%d is no operation of a Call; use engine.Attempt, Peek, Probe, "+
				"Record or Refund, or the methods of a Limiter and a Reservation", c.Op)
	case r.N == 0 && c.Op != engine.Peek:
		return engine.Input("units",
			"0; an attempt, a probe, a record or a refund takes 1 or more, "+
				"and Peek looks without a charge")
	case c.Op == engine.Refund && r.States != nil:
		return engine.Input("request", "a refund fills no States; leave them out")
	case c.Op != engine.Refund && !c.From.IsZero():
		return engine.Input("request", "From is for engine.Refund; leave it out")
	}
	if err := r.set(p); err != nil || c.Op != engine.Refund {
		return err
	}
	var err error
	p.From, err = instant(c.From, "such as the At of the grant's Decision")
	return err
}

// DecideAll decides several calls in their order: on memory with one reading of the clock, on
// Redis in one round trip, on disk with one wait. Each has its own decision or error, that of
// [Call.Do], and denials change nothing for the others. The calls may be of several
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
		switch e := calls[from].on(); {
		case ctx == nil:
			misuse.Fail(ctx, prepared[from:to], "")
		case e != nil:
			e.Do(ctx, prepared[from:to])
		}
		from = to
	}
	takeAnswers(calls, prepared)
}

// Check returns the error of bad input in the call (R14), without a decision.
func (c *Call) Check() error {
	var p engine.Call
	return c.prepare(&p)
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
		p.Err = c.prepare(p)
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
		c.Decision.answer(p)
	}
}

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
// The calls are attempts without an ID and at one instant, or peeks of 0 units. A peek is
// charged nothing. It denies the whole while the room of its limits is below 0, a minimum
// interval has not passed, or a block runs. A denied whole begins the block of each call's own
// Limit (R20). A policy in mode Partial is decided all or nothing, as by
// [Limiter.Wait]. A policy in mode CountDenied is rejected, because its denials change
// histories, and so is one with a concurrency limit, because nothing would end its
// hold. The calls have at most engine.MaxLimits histories and MaxDimensions different values. Calls
// with different limits for one history are rejected, and on a Redis Cluster histories in
// different slots.
//
// After an error every Decision is the zero Decision. That of bad input is a [*engine.CallError]
// (R14).
func DecideTogether(ctx context.Context, calls []Call) error {
	pooled := prepareAll(calls)
	defer release(pooled)
	prepared := *pooled
	for i := range calls {
		c := &calls[i]
		c.Decision, c.Err = Decision{}, nil
		if prepared[0].Err == nil && prepared[i].Err == nil && !c.sharesEngine(&calls[0]) {
			prepared[i].Err = engine.Input("request",
				"policy %q is on another engine than policy %q; decide the calls on one engine",
				c.Limiter.rules.Name, calls[0].Limiter.rules.Name)
		}
	}
	switch {
	case len(calls) == 0:
		return nil
	case ctx == nil:
		return misuse.ErrNoContext
	}
	if err := engine.Together(ctx, calls[0].on(), prepared); err != nil {
		return err
	}
	takeAnswers(calls, prepared)
	return nil
}
