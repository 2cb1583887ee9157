package weirredis

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// lane carries the questions that one script answers. While calls are under way
// the next callers wait together, and go in one call when their turn comes: the
// first of them who wakes sends for all. There is no timer and nothing runs in the
// background, and a caller who finds the lane free pays nothing.
//
// A crowd that was answered in one call mostly asks again at the same moment. So
// after such a call the next one is not sent before whoever else is ready to run
// has had the processor, and what is asked while a crowd's call is under way goes
// beside it only once it fills a call of its own.
type lane struct {
	e *Engine

	mu      sync.Mutex // protects the following, and what batches say it does
	under   int        // calls under way, and those whose turn has come
	crowds  int        // of those, the calls for a crowd
	crowded bool       // the call that was sent last was for a crowd
	queue   []*batch   // those that are not sent yet, oldest first
	spare   paper      // of a batch that was answered
}

const (
	// underWay is how many calls a lane lets go at once. With one, two callers
	// would wait for each other all the time; with many, batches stay small.
	underWay = 2

	// crowd is how many callers make one.
	crowd = 4

	// mostAsked is how many questions go in one call. Longer calls would make
	// others wait for longer, and gain nothing.
	mostAsked = 128
)

// ask returns the reply to q, and when it was asked.
func (l *lane) ask(ctx context.Context, q *question) (reply, time.Time, error) {
	l.mu.Lock()
	if len(l.queue) == 0 && !l.crowded && l.free() {
		l.under++
		l.mu.Unlock()
		defer l.pass(nil)
		return l.e.alone(ctx, q)
	}
	b, me := l.join(ctx, q)
	l.turn()
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

// send asks for a batch whose turn has come, and passes the turn on. Whoever is
// ready to run can still join: the first yield lets those run who have just been
// answered, the second those who waited for a processor meanwhile. Of 64 callers
// one yield brings 45 together, two bring 60.
func (l *lane) send(ctx context.Context, b *batch) {
	defer l.pass(b)
	runtime.Gosched()
	runtime.Gosched()
	b.send(ctx, l)
}

// join puts q into a batch that is not sent yet. l.mu is held.
func (l *lane) join(ctx context.Context, q *question) (*batch, *caller) {
	if n := len(l.queue); n > 0 {
		if b := l.queue[n-1]; b.takes(q) {
			return b, b.add(ctx, q)
		}
	}
	b := newBatch(&l.spare, l.e.merging)
	l.queue = append(l.queue, b)
	return b, b.add(ctx, q)
}

// free reports whether a call may go whatever it carries. l.mu is held.
func (l *lane) free() bool { return l.under < underWay && l.crowds == 0 }

// turn gives the next batches their turn while they may go. Whether one is for a
// crowd is only known when it is sent; until then it counts as if it were. l.mu is held.
func (l *lane) turn() {
	for _, b := range l.queue {
		switch {
		case b.turned:
		case l.free(), l.under < underWay && b.full():
			b.turned, b.crowd = true, true
			l.under++
			l.crowds++
			b.turn <- struct{}{} // it has room for the one turn of a batch
		default:
			return
		}
	}
}

// start takes the batch out of the queue: it goes now. l.mu is held.
func (l *lane) start(b *batch, callers int) {
	l.queue = slices.DeleteFunc(l.queue, func(other *batch) bool { return other == b })
	if l.crowded = callers >= crowd; !l.crowded {
		b.crowd = false
		l.crowds--
		l.turn()
	}
}

// pass ends the call for a batch, or for somebody alone for nil, and passes its turn on.
func (l *lane) pass(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b != nil {
		b.wipe()
		l.spare = b.paper
	}
	l.passLocked(b)
}

func (l *lane) passLocked(b *batch) {
	l.under--
	if b != nil && b.crowd {
		l.crowds--
	}
	l.turn()
}

// take takes the turn of the batch for the caller who got it, and reports whether
// it is to send. If it has given up meanwhile, the turn is another caller's.
func (l *lane) take(ctx context.Context, b *batch, me *caller) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		b.taken = true
		return true
	}
	me.gone = true
	b.waiting--
	if b.waiting > 0 {
		b.turn <- struct{}{}
	} else {
		l.drop(b)
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
	switch {
	case b.started:
		if b.waiting == 0 {
			b.cancel()
		}
		return ctx.Err()
	case b.waiting > 0 || b.taken:
	default:
		if b.turned { // and nobody is left to take it
			<-b.turn
		}
		l.drop(b)
	}
	return UnsentError{ctx.Err()}
}

// drop takes a batch that nobody waits for out of the queue. l.mu is held.
func (l *lane) drop(b *batch) {
	l.queue = slices.DeleteFunc(l.queue, func(other *batch) bool { return other == b })
	if b.turned {
		l.passLocked(b)
	}
}
