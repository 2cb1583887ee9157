package weir

import (
	"context"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Wait is WaitN(ctx, key, 1).
func (l *Limiter) Wait(ctx context.Context, key Key) (Decision, error) {
	return l.WaitN(ctx, key, 1)
}

// WaitN blocks until n units are granted in full, in mode Partial too. It returns a
// *WaitError immediately, with nothing recorded, if the attempt can never be granted or the
// announced wait outlasts ctx's deadline. It stops when ctx is done. Callers are served
// in no particular order. Under a limit of kind Concurrency the announced wait lasts until a
// hold ends by time: WaitN does not notice that another caller ends its hold sooner.
func (l *Limiter) WaitN(ctx context.Context, key Key, n int64) (Decision, error) {
	if err := l.check(&key, n); err != nil {
		return Decision{}, err
	}
	if l.fixed {
		return Decision{}, errFixed
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, &WaitError{Cause: err}
	}
	for {
		d, err := l.tryWhole(ctx, &key, n)
		if err != nil || d.Allowed {
			return d, err
		}
		if d.RetryAfter == Never {
			return d, &WaitError{Decision: d, Cause: ErrNever}
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d.RetryAfter {
			return d, &WaitError{Decision: d, Cause: ErrDeadline}
		}
		wait := d.RetryAfter
		if wait == 0 {
			wait = time.Millisecond // a fallback denied with an unknown wait: do not spin
		}
		pause, cancel := context.WithTimeout(ctx, wait)
		<-pause.Done()
		cancel()
		if err := ctx.Err(); err != nil {
			return d, &WaitError{Decision: d, Cause: err}
		}
	}
}

var errFixed = engine.Input("instant", "a wait or a reservation begins now; call the Limiter itself, without an instant")

// tryWhole attempts n units, all or none. In CountDenied it peeks first, because a denied
// attempt would delay the next one.
func (l *Limiter) tryWhole(ctx context.Context, key *Key, n int64) (Decision, error) {
	c := engine.Call{Rules: l.whole, Key: *key, N: n, Outage: l.outage}
	if l.rules.Mode == CountDenied {
		c.Op = engine.Peek
		if l.do(ctx, &c); c.Err != nil || !c.Result.Allowed {
			return answer(&c), c.Err
		}
		c.Op, c.Result = engine.Attempt, engine.Result{}
	}
	l.do(ctx, &c)
	return answer(&c), c.Err
}
