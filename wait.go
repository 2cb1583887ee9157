package weir

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
)

// Wait is WaitN(ctx, key, 1).
func (l *Limiter) Wait(ctx context.Context, key Key) (Decision, error) {
	return l.WaitN(ctx, key, 1)
}

// WaitN blocks until n units are granted in full, in mode Partial too, and their use may begin. It
// makes one attempt, with a MaxWait until ctx's deadline, and sleeps once, for StartAfter (R18). So
// the callers of a key are served in the order of their attempts, in all processes.
//
// It returns a *WaitError immediately, with nothing recorded, if the attempt can never be granted
// or the announced wait outlasts ctx's deadline. If ctx ends during the sleep, WaitN gives the
// units back, in a second call of at most a second, and returns a *WaitError with ctx's error. An
// engine that does not answer that call keeps the units until they leave by time, and the error has
// both reasons.
//
//   - During a block (R20) it waits for the end, and then makes another attempt. A denied attempt
//     may begin a block.
//   - In mode CountDenied a denial would delay the next attempt. So it peeks, sleeps until the
//     attempt fits, and repeats both if another caller was quicker.
//   - During an outage package fallback may deny for a time, or for an unknown one. It makes
//     another attempt then.
//
// Under a concurrency limit it is not known when units are released, so none is granted ahead.
// Callers of this process wait in the order of their calls for the limit that denied them, and the
// first one makes attempts: as soon as a reservation of this process is settled, or a refund takes
// units back, on the same engine and history; at the latest end of a hold; and every 150 to 250 ms,
// because other processes release units without notice. It waits until ctx ends, also if no hold
// ends by time before that. The units are held for the whole MaxHold, unless a [Limiter.Refund] at
// the decision's At ends the hold. That gives back the units of other limits, too.
func (l *Limiter) WaitN(ctx context.Context, key Key, n int64) (Decision, error) {
	if err := l.check(&key, n); err != nil {
		return Decision{}, err
	}
	if l.fixed {
		return Decision{}, errFixed
	}
	if ctx == nil {
		return Decision{}, misuse.ErrNoContext
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, &WaitError{Cause: err, N: n}
	}
	if hasHold(l.whole) && n > 0 {
		return l.waitInLine(ctx, &key, n)
	}
	for {
		d, err := l.attemptWhole(ctx, &key, n)
		switch {
		case err != nil:
			return d, err
		case d.Allowed:
			return d, l.awaitStart(ctx, &key, n, &d)
		}
		if cause := whyHopeless(ctx, &d); cause != nil {
			return d, &WaitError{Decision: d, Cause: cause, N: n}
		}
		if err := sleep(ctx, nextTry(&d), nil); err != nil {
			return d, &WaitError{Decision: d, Cause: err, N: n}
		}
	}
}

var errFixed = engine.Input("instant", "a wait or a reservation begins now; "+
	"call the Limiter itself, without an instant")

// attemptWhole attempts n units, all or none. In CountDenied it peeks first, because a denied
// attempt would delay the next one.
func (l *Limiter) attemptWhole(ctx context.Context, key *Key, n int64) (Decision, error) {
	c := engine.Call{Rules: l.whole, Key: *key, N: n, Outage: l.outage}
	switch {
	case l.rules.Mode == CountDenied:
		c.Op = engine.Peek
		if l.do(ctx, &c); c.Err != nil || !c.Result.Allowed {
			return answerOf(&c), c.Err
		}
		c.Op, c.Result = engine.Attempt, engine.Result{}
	case n > 0 && !hasHold(l.whole):
		c.MaxWait = timeLeft(ctx).Microseconds()
	}
	l.do(ctx, &c)
	return answerOf(&c), c.Err
}

// timeLeft returns the time until the deadline of ctx, 0 … MaxWindow.
func timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return MaxWindow
	}
	return min(max(0, time.Until(deadline)), MaxWindow)
}

// awaitStart sleeps until the use of granted units may begin. If ctx ends before that, it gives the
// units back.
func (l *Limiter) awaitStart(ctx context.Context, key *Key, n int64, d *Decision) error {
	if d.StartAfter == 0 {
		return nil
	}
	err := sleep(ctx, d.StartAfter, nil)
	if err == nil {
		return nil
	}
	if failed := l.cancelStart(ctx, key, n, d); failed != nil {
		err = fmt.Errorf("%w; its units could not be given back, so they count: %w", err, failed)
	}
	return &WaitError{Decision: *d, Cause: err, N: n}
}

// cancelTimeout bounds the call that gives units back after the caller's context has ended.
const cancelTimeout = time.Second

// cancelStart takes back units whose use has not begun.
func (l *Limiter) cancelStart(ctx context.Context, key *Key, n int64, d *Decision) error {
	own, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	_, err := l.Refund(own, *key, d.At.Add(d.StartAfter), n)
	return err
}

// whyHopeless returns the reason why a denied caller need not wait: ErrNever, or ErrDeadline if its
// context ends before the attempt fits. nil means that it waits.
func whyHopeless(ctx context.Context, d *Decision) error {
	if d.RetryAfter == Never {
		return ErrNever
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d.RetryAfter {
		return ErrDeadline
	}
	return nil
}

// nextTry returns the time after which a denied caller makes another attempt. The wait of a
// fallback may be unknown: then it does not spin.
func nextTry(d *Decision) time.Duration { return cmp.Or(d.RetryAfter, time.Millisecond) }

// sleep waits for a time, or for a signal, and returns nil. It returns the error of ctx if that
// ends before. A nil wake has no signal, and a time of Never does not end.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
