package weir

import (
	"context"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/isnil"
)

// Observe returns an engine that decides by e and reports every call, with its result and its
// duration, for the metrics and traces of a program. The answers are those of e.
//
//	report := func(ctx context.Context, c *engine.Call, took time.Duration) {
//		fmt.Println(c.Rules.Name, c.Result.Allowed, c.Result.Limit, c.Err, took)
//	}
//	limiter, err := weir.New(policy, weir.WithEngine(weir.Observe(weir.NewMemory(), report)))
//
// First e decides. Then observe is called once for each call, in their order. The call has its
// Result, or an Err and the zero Result. The caller of the limiter waits for observe.
//
//   - Concurrency: observe runs on the goroutine of the caller, so on many at the same time.
//   - Memory: observe changes nothing in the call. It keeps neither the call nor its Key, ID or
//     States, because their memory is used again. It may keep Rules, Err and a copy of Result.
//   - Duration: that of e.Do, without observe. All calls of one Do, such as those of
//     [DecideAll], have the same duration.
//   - Result: Allowed belongs to attempts, peeks, probes, records and extensions; look at Op first.
//     The Granted of a refund or a settlement are the units taken back. Kind, Max,
//     Window and Used are zero, except in a replayed result. [engine.Compiled.Explain] sets
//     them in a copy.
//   - Bad input: a limiter rejects it without a call. In a Do of several calls, one that comes
//     with an Err is neither decided nor reported.
//   - Steps: a call is one step of the engine. [Limiter.Wait] takes one, with a MaxWait, and an
//     engine.Refund if its caller gives up; its Result has the StartAfter. The sleep is no call. Each
//     method of a [Reservation] takes one: engine.Settle or engine.Extend, with the reservation in
//     ID. The attempt of a reservation has a TTL. [DecideTogether] is one call; the name of
//     its Rules has the names of all policies, joined by "+".
//   - Panics: a panic of e or of observe reaches the caller. After one of e no call of this Do
//     is reported. After one of observe the units stay charged.
//
// Around an engine of package fallback, observe gets the answers that callers get, also those
// that are Degraded. Inside of one it gets those of the store: errors, timeouts, and probes
// under the policy weir-probe, but no call that was decided without the store.
//
// Each result of Observe is another engine with the histories of e. [DecideTogether] needs calls
// on one engine, so make one result for all limiters. Keep e for methods of its own, such as
// [Memory.Stats].
//
// The result is e itself if observe is nil, so that nothing is reported, and if e is nil:
// [New] returns its error for a nil engine.
func Observe(
	e engine.Engine,
	observe func(context.Context, *engine.Call, time.Duration),
) engine.Engine {
	if observe == nil || isnil.Is(e) {
		return e
	}
	return &observed{engine: e, observe: observe}
}

// observed is an engine with an observer.
type observed struct {
	engine  engine.Engine
	observe func(context.Context, *engine.Call, time.Duration)
}

// Do decides calls by the engine inside and reports them.
func (o *observed) Do(ctx context.Context, calls []engine.Call) {
	var room [16]int
	skipped := room[:0] // the indices of calls with bad input
	for i := range calls {
		if calls[i].Err != nil {
			skipped = append(skipped, i)
		}
	}
	began := time.Now()
	o.engine.Do(ctx, calls)
	took := time.Since(began)
	for i := range calls {
		if len(skipped) > 0 && skipped[0] == i {
			skipped = skipped[1:]
			continue
		}
		o.observe(ctx, &calls[i], took)
	}
}

// Observed returns the engine inside. Package fallback looks there for a memory engine.
func (o *observed) Observed() engine.Engine { return o.engine }

// innermost returns the engine inside all observers.
func innermost(e engine.Engine) engine.Engine {
	for {
		o, ok := e.(*observed)
		if !ok {
			return e
		}
		e = o.engine
	}
}
