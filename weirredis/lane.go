package weirredis

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lane carries the questions that one script answers. While calls are under way
// the next callers wait together, and go in one call when their turn comes: the
// first of them who wakes sends for all. There is no timer and nothing runs in the
// background, and a caller who finds the lane free pays nothing.
type lane struct {
	e *Engine

	mu    sync.Mutex // protects the following, and what batches say it does
	under int        // calls under way
	queue []*batch   // those whose turn has not come, oldest first
}

const (
	// underWay is how many calls a lane lets go at once. With one, two callers
	// would wait for each other all the time; with many, batches stay small.
	underWay = 2

	// mostAsked is how many questions go in one call. Longer calls would make
	// others wait for longer, and gain nothing.
	mostAsked = 128
)

// ask returns the reply to q, and when it was asked.
func (l *lane) ask(ctx context.Context, q *question) (reply, time.Time, error) {
	l.mu.Lock()
	if l.under < underWay && len(l.queue) == 0 {
		l.under++
		l.mu.Unlock()
		defer l.pass()
		return l.e.alone(ctx, q)
	}
	b, me := l.join(ctx, q)
	l.mu.Unlock()
	for turn := b.turn; ; {
		select {
		case <-b.done:
			return me.reply, b.sent, me.err
		case <-turn:
			turn = nil
			if !l.take(ctx, b, me) {
				return reply{}, time.Time{}, UnsentError{ctx.Err()}
			}
			if ctx.Done() == nil {
				l.send(ctx, b)
			} else {
				go l.send(ctx, b) // it ends with the call, and this caller can leave before
			}
		case <-ctx.Done():
			return reply{}, time.Time{}, l.leave(ctx, b, me)
		}
	}
}

// send asks for a batch whose turn has come, and passes the turn on.
func (l *lane) send(ctx context.Context, b *batch) {
	defer l.pass()
	b.send(ctx, l)
}

// join puts q into the batch that is still open. l.mu is held.
func (l *lane) join(ctx context.Context, q *question) (*batch, *caller) {
	if n := len(l.queue); n > 0 {
		if b := l.queue[n-1]; b.takes(q) {
			return b, b.add(ctx, q)
		}
	}
	b := newBatch(l.e.merging)
	l.queue = append(l.queue, b)
	return b, b.add(ctx, q)
}

// pass gives the turn of a call that is over to the next batch.
func (l *lane) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passLocked()
}

func (l *lane) passLocked() {
	if len(l.queue) == 0 {
		l.under--
		return
	}
	b := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	b.turn <- struct{}{} // it has room for the one turn of a batch
}

// take takes the turn of the batch for the caller who got it, and reports whether
// it is to send. If it has given up meanwhile, the turn is another caller's.
func (l *lane) take(ctx context.Context, b *batch, me *caller) bool {
	l.mu.Lock()
	if ctx.Err() == nil {
		b.taken = true
		l.mu.Unlock()
		return true
	}
	me.gone = true
	b.waiting--
	others := b.waiting > 0
	l.mu.Unlock()
	if others {
		b.turn <- struct{}{}
	} else {
		l.pass()
	}
	return false
}

// leave takes the caller out of its batch, and returns why. What was not sent yet
// will not be sent; where it was sent, the others go on waiting.
func (l *lane) leave(ctx context.Context, b *batch, me *caller) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	me.gone = true
	b.waiting--
	switch i := slices.Index(l.queue, b); {
	case b.started:
		if b.waiting == 0 {
			b.cancel()
		}
		return ctx.Err()
	case b.waiting > 0 || b.taken:
	case i >= 0:
		l.queue = slices.Delete(l.queue, i, i+1)
	default: // the turn has come, and nobody is left to take it
		<-b.turn
		l.passLocked()
	}
	return UnsentError{ctx.Err()}
}
