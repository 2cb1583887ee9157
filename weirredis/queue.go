package weirredis

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// queue collects requests that one script decides. A caller that finds the queue free sends its
// request immediately. While calls are in flight, further callers wait in a batch. When a call
// may start, one of them sends the batch for all. There is no timer and no background goroutine.
//
// The callers of a big batch mostly return together. So after a big batch the next call
// starts only after other runnable goroutines had the processor.
//
// Two batches are in flight under load: the server decides one while this process
// delivers the replies of the other. So a batch takes at most half of the callers, and
// beside a big batch another starts with half of its share.
type queue struct {
	e *Engine

	mu            sync.Mutex // protects the following, and the fields of batches that name it
	inFlight      int        // calls in flight or about to start
	big           int        // big batches among the calls in flight
	lastBig       bool       // the call that started last was a big batch
	callers       int        // callers that wait or are part of a call in flight
	recentCallers [2]int     // callers when the last two batches were sent
	waiting       []*batch   // batches that are not sent yet, oldest first
}

const (
	// maxInFlight is the number of calls of a queue in flight. With one, two callers
	// would always wait for each other; with many, batches stay small.
	maxInFlight = 2

	// bigBatch is the number of callers from which a batch is big.
	bigBatch = 4

	// minShare is the number of callers that a batch takes in any case. With smaller batches
	// the additional calls cost more than the second call in flight gains.
	minShare = 8

	// maxRequests is the number of requests in one call. Longer calls make others wait
	// longer and save nothing.
	maxRequests = 128
)

// send sends the request of a, perhaps with those of other callers, and sets its outcome.
func (q *queue) send(ctx context.Context, a *answer) {
	q.mu.Lock()
	q.callers++
	if len(q.waiting) == 0 && !q.lastBig && q.isFree() {
		q.inFlight++
		q.mu.Unlock()
		defer q.release(nil)
		q.e.callOne(ctx, a)
		return
	}
	b, me := q.join(ctx, a)
	q.startNext()
	waits := b.stays && ctx.Done() == nil // another caller sends the batch
	b.stays = b.stays || ctx.Done() == nil
	q.mu.Unlock()
	if waits {
		<-b.done
		*a = me.answer
		return
	}
	for start := b.start; ; {
		select {
		case <-b.done:
			*a = me.answer
			return
		case <-start:
			start = nil
			if !q.claim(ctx, b, me) {
				a.err = UnsentError{ctx.Err()}
				return
			}
			if ctx.Done() == nil {
				q.sendBatch(ctx, b)
			} else {
				go q.sendBatch(ctx, b) // ends with the call; this caller may leave before
			}
		case <-ctx.Done():
			a.err = q.leave(ctx, b, me)
			return
		}
	}
}

// sendBatch sends b and releases its place in flight. Until the batch has its share,
// runnable goroutines can still join. The first yield runs callers that were just answered.
// The second yield runs those that waited for a processor meanwhile. Of 64 callers one yield
// collects 45, and two collect 60.
func (q *queue) sendBatch(ctx context.Context, b *batch) {
	defer q.release(b)
	for range 2 {
		if q.isFull(b) {
			break
		}
		runtime.Gosched()
	}
	b.call(ctx, q)
}

// share returns the number of callers of one batch: half of the callers. The callers of a call
// that has just ended will return soon, so the numbers at the last two batches count, too. q.mu
// is held.
func (q *queue) share() int {
	return max(minShare, (max(q.callers, q.recentCallers[0], q.recentCallers[1])+1)/2)
}

// isFull reports whether b takes no further caller.
func (q *queue) isFull(b *batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return b.callers >= q.share() || b.full()
}

// join adds a to a batch that is not sent yet. q.mu is held.
func (q *queue) join(ctx context.Context, a *answer) (*batch, *caller) {
	if n := len(q.waiting); n > 0 {
		if b := q.waiting[n-1]; b.callers < q.share() && !b.full() {
			return b, b.add(ctx, a)
		}
	}
	b := newBatch()
	q.waiting = append(q.waiting, b)
	return b, b.add(ctx, a)
}

// isFree reports whether a call of any size may start. q.mu is held.
func (q *queue) isFree() bool { return q.inFlight < maxInFlight && q.big == 0 }

// startNext lets waiting batches start while calls may start. The size of a batch is
// final only when it is sent; until then it counts as big. q.mu is held.
func (q *queue) startNext() {
	for _, b := range q.waiting {
		switch {
		case b.ready:
		case q.isFree(), q.inFlight < maxInFlight && (2*b.callers >= q.share() || b.full()):
			b.ready, b.big = true, true
			q.inFlight++
			q.big++
			b.start <- struct{}{} // buffered: a batch starts once
		default:
			return
		}
	}
}

// markSent removes b from the waiting batches, because b is sent now. q.mu is held.
func (q *queue) markSent(b *batch) {
	q.remove(b)
	b.sentFor = b.callers
	q.recentCallers[0], q.recentCallers[1] = q.callers, q.recentCallers[0]
	if q.lastBig = b.callers >= bigBatch; !q.lastBig {
		b.big = false
		q.big--
		q.startNext()
	}
}

// release ends the call of a batch, or of a single request if b is nil.
func (q *queue) release(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b == nil {
		q.callers--
	} else {
		q.callers -= b.sentFor
	}
	q.releaseLocked(b)
}

func (q *queue) releaseLocked(b *batch) {
	q.inFlight--
	if b != nil && b.big {
		q.big--
	}
	q.startNext()
}

// claim makes me the sender of the batch and reports whether it may send. If its context
// has ended, another caller becomes the sender.
func (q *queue) claim(ctx context.Context, b *batch, me *caller) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ctx.Err() == nil {
		b.claimed = true
		return true
	}
	me.gone = true
	b.callers--
	q.callers--
	if b.callers > 0 {
		b.start <- struct{}{}
	} else {
		q.drop(b)
	}
	return false
}

// leave removes me from its batch and returns the error of ctx. A request that was not sent yet
// will not be sent. A call that was sent ends when all its callers have left.
func (q *queue) leave(ctx context.Context, b *batch, me *caller) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	me.gone = true
	b.callers--
	if b.started {
		if b.callers == 0 {
			b.cancel()
		}
		return ctx.Err()
	}
	q.callers--
	if b.callers == 0 && !b.claimed {
		if b.ready { // and no caller is left to receive it
			<-b.start
		}
		q.drop(b)
	}
	return UnsentError{ctx.Err()}
}

// drop removes a batch that has no callers. q.mu is held.
func (q *queue) drop(b *batch) {
	q.remove(b)
	if b.ready {
		q.releaseLocked(b)
	}
}

// remove takes a batch out of the waiting ones. q.mu is held.
func (q *queue) remove(b *batch) {
	q.waiting = slices.DeleteFunc(q.waiting, func(other *batch) bool { return other == b })
}
