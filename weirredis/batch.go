package weirredis

import (
	"context"
	"errors"
	"slices"
	"time"
)

// batch is the requests of several callers in one call.
type batch struct {
	start chan struct{} // the caller that receives from it sends the batch
	done  chan struct{} // closed when all callers have their replies

	// The queue's mutex protects the following until started is set.
	ready   bool // a caller may receive from start
	big     bool // the queue counts the batch as big
	claimed bool // a caller is about to send the batch
	started bool // the batch is being sent
	waiting []*caller
	stays   bool               // a caller that cannot leave waits for start
	callers int                // callers that have not left; always protected
	sentFor int                // callers when the batch was sent
	until   time.Time          // the last deadline
	endless bool               // a caller has no deadline
	cancel  context.CancelFunc // ends the call when all callers have left
}

// caller waits for a reply.
type caller struct {
	gone   bool // its context has ended; protected by the queue's mutex
	answer      // complete when the batch is done
}

// errUnanswered is the error of a caller if the call of its batch was aborted.
var errUnanswered = errors.New("the call for several callers was aborted")

// newBatch returns an empty batch.
func newBatch() *batch {
	return &batch{start: make(chan struct{}, 1), done: make(chan struct{})}
}

// full reports whether no further request fits.
func (b *batch) full() bool { return len(b.waiting) >= maxRequests }

// add adds a caller with its request.
func (b *batch) add(ctx context.Context, a *answer) *caller {
	me := &caller{answer: *a}
	me.err = errUnanswered
	b.callers++
	if deadline, ok := ctx.Deadline(); !ok {
		b.endless = true
	} else if deadline.After(b.until) {
		b.until = deadline
	}
	b.waiting = append(b.waiting, me)
	return me
}

// call sends the requests of all callers that still wait and delivers the replies. The
// call ends with the last of their deadlines, or when all callers have left.
func (b *batch) call(ctx context.Context, q *queue) {
	defer close(b.done)
	callCtx, cancel, answers := b.close(ctx, q)
	defer cancel()
	if len(answers) == 0 {
		return
	}
	q.e.callAll(callCtx, answers)
	for i, me := range b.waiting {
		me.answer = answers[i]
	}
}

// close removes the callers that have left. From then on the requests do not change. It
// returns the context of the call, and the requests. ctx is the sender's context.
func (b *batch) close(
	ctx context.Context, q *queue,
) (callCtx context.Context, cancel context.CancelFunc, answers []answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b.started = true
	b.waiting = slices.DeleteFunc(b.waiting, func(c *caller) bool { return c.gone })
	answers = make([]answer, len(b.waiting))
	for i, c := range b.waiting {
		answers[i] = c.answer
	}
	q.markSent(b)
	if b.endless {
		callCtx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	} else {
		callCtx, b.cancel = context.WithDeadline(context.WithoutCancel(ctx), b.until)
	}
	return callCtx, b.cancel, answers
}
