package weir

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
)

// mostOverdue bounds the goroutines that are left behind with a call that nobody
// waits for any more. The breaker keeps them to a few a second.
const mostOverdue = 1024

var errCrowded = fmt.Errorf("%w: not asked, since %d calls that ran out of time have not returned yet", ErrUnavailable, mostOverdue)

// send has another goroutine call the engine, and leaves it when time is up.
func (g *guard) send(ctx context.Context, q *question, r *reply) {
	if r.err = ctx.Err(); r.err != nil {
		return
	}
	if g.overdue.Load() >= mostOverdue {
		r.err = errCrowded
		return
	}
	ctx, cancel := context.WithTimeout(ctx, g.budget)
	defer cancel()
	e := &errand{question: q.kept(), done: make(chan struct{})}
	go e.run(g, func() { e.put(ctx, g.engine, &e.reply) })
	select {
	case <-e.done:
	case <-ctx.Done():
		if e.leave(g) {
			r.err = ctx.Err()
			return
		}
	}
	e.deliver(q, r)
}

// errand is a call on a goroutine of its own.
type errand struct {
	question
	reply
	thrown  any         // what the engine panicked with
	aborted bool        // it did not return: it panicked, or ended the goroutine
	settled atomic.Bool // it has ended, or its caller has left: whichever was first
	orphan  func()      // called when it has ended and its caller has left; nil = nothing is
	done    chan struct{}
}

// run makes the call.
func (e *errand) run(g *guard, call func()) {
	e.aborted = true
	defer func() {
		if e.aborted {
			e.thrown = recover()
		}
		if e.settled.CompareAndSwap(false, true) {
			close(e.done)
			return
		}
		g.overdue.Add(-1)
		if e.orphan != nil {
			e.orphan()
		}
		if e.thrown != nil {
			panic(e.thrown) // nobody is left to hear of it, and it must not be lost
		}
	}()
	call()
	e.aborted = false
}

// leave reports whether the caller could go before the call ended.
func (e *errand) leave(g *guard) bool {
	g.overdue.Add(1)
	if e.settled.CompareAndSwap(false, true) {
		return true
	}
	g.overdue.Add(-1)
	<-e.done
	return false
}

// deliver hands over what the call came to, a panic included.
func (e *errand) deliver(q *question, r *reply) {
	if e.aborted {
		if e.thrown != nil {
			panic(e.thrown)
		}
		runtime.Goexit()
	}
	copy(q.ask.States, e.ask.States)
	*r = e.reply
}
