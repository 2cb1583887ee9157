package enforce

import (
	"context"
	"time"
)

// Observer receives the calls of a Set's policies, for metrics, logs and traces.
type Observer interface {
	// Rule returns the handle of a policy that is compiled. before is that of the policy of
	// the same name in force, so that counters survive a reload; nil if there is none.
	Rule(r *Rule, before Handle) Handle
}

// Handle receives the calls of one policy. It is safe for concurrent use.
type Handle interface {
	// Observe receives a call after it was made. It does not block, and keeps no States.
	Observe(c Call)
}

// Call is a call with its outcome.
type Call struct {
	Request Request
	Outcome Outcome   // without an Err
	Err     error     // as Rule.Decide returned it
	Began   time.Time // by the clock of this process
	Took    time.Duration
	Index   int // among calls that were made in one step: Took is the duration of all of them
}

// observeAll passes the calls of a batch to their handles. all is the error of all items, if
// there is one.
func observeAll(items []Item, all error, began time.Time) {
	took, index := time.Since(began), 0
	for i := range items {
		it := &items[i]
		if it.Rule == nil || it.Rule.Handle == nil {
			continue
		}
		c := Call{Request: it.Request, Outcome: it.Outcome, Err: it.Err, Began: began, Took: took, Index: index}
		if all != nil {
			c.Err = all
		}
		it.Rule.Handle.Observe(c)
		index++
	}
}

// Decide makes a call by its Op, and passes it to the Observer:
//
//   - An attempt, a peek or a record is decided. A shadow allows every attempt, also one that
//     the engine cannot decide: then Outcome.Err has the reason.
//   - A refund takes units back; Granted is their number.
//   - A count (engine.Count) returns the units of a limit in a span as Granted.
//   - A reset (engine.Reset) deletes the histories of the key and ends its blocks.
//
// The error is that of [weir.Limiter.Decide]: a is wrong (R14), or the engine cannot decide.
func (r *Rule) Decide(ctx context.Context, a *Request) (Outcome, error) {
	if r.Handle == nil {
		return r.decide(ctx, a)
	}
	began := time.Now()
	o, err := r.decide(ctx, a)
	r.Handle.Observe(Call{Request: *a, Outcome: o, Err: err, Began: began, Took: time.Since(began)})
	return o, err
}
