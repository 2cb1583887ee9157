package weirredis

import (
	"context"
	"errors"
	"slices"
	"time"
)

// batch is what several callers ask in one call.
type batch struct {
	turn chan struct{} // whoever receives from it sends
	done chan struct{} // closed when all have been answered
	sent time.Time     // when; set before done is closed

	// The lane's mutex protects the following until started is set.
	turned  bool // its turn has come
	crowd   bool // it counts as a call for a crowd
	taken   bool // somebody is about to send
	started bool // somebody does
	paper
	merging bool
	waiting int                // callers that have not given up; protected to the end
	until   time.Time          // the last deadline
	endless bool               // somebody has no deadline
	cancel  context.CancelFunc // ends the call when nobody waits for it any more
}

// paper is what questions are put down on. It is used again.
type paper struct {
	asks   []asked
	latest map[string]int // where callers are merged, the last of asks about the same keys
}

// wipe takes off what is on it.
func (p *paper) wipe() {
	clear(p.asks)
	p.asks = p.asks[:0]
	clear(p.latest)
}

// asked is one question and those who asked it.
type asked struct {
	question
	first *caller
	more  []*caller
}

// callers is how many asked it.
func (a *asked) callers() int { return 1 + len(a.more) }

// caller returns the i-th of them, from 0.
func (a *asked) caller(i int) *caller {
	if i == 0 {
		return a.first
	}
	return a.more[i-1]
}

// stay leaves out who has given up, and reports whether anybody is left.
func (a *asked) stay() bool {
	a.more = slices.DeleteFunc(a.more, func(c *caller) bool { return c.gone })
	if a.first.gone {
		if len(a.more) == 0 {
			return false
		}
		a.first, a.more = a.more[0], a.more[1:]
	}
	return true
}

// caller waits for a reply.
type caller struct {
	gone  bool // it has given up; protected by the lane's mutex
	reply reply
	err   error
}

// errUnanswered is the error of a caller whose sender never came back.
var errUnanswered = errors.New("the call that asked for several callers was broken off")

// mostMerged is how many callers one question can stand for.
const mostMerged = 255

// newBatch is a batch of nobody yet, on paper of which it becomes the owner.
func newBatch(p *paper, merging bool) *batch {
	b := &batch{turn: make(chan struct{}, 1), done: make(chan struct{}), paper: *p, merging: merging}
	if merging && b.latest == nil {
		b.latest = map[string]int{}
	}
	*p = paper{}
	return b
}

// full reports whether no further question fits.
func (b *batch) full() bool { return len(b.asks) >= mostAsked }

// takes reports whether there is room for q.
func (b *batch) takes(q *question) bool {
	return !b.full() || b.like(q) >= 0
}

// like returns the question that a caller who asks q may join, or -1. It is the
// last one about any of those histories, so that callers are served in the order in
// which they came.
func (b *batch) like(q *question) int {
	if !b.merging || !q.canMerge() {
		return -1
	}
	i, ok := b.latest[q.all]
	if ok && (q.apart || i == len(b.asks)-1) && b.asks[i].same(q) && b.asks[i].callers() < mostMerged {
		return i
	}
	return -1
}

// add puts a caller into the batch.
func (b *batch) add(ctx context.Context, q *question) *caller {
	me := &caller{err: errUnanswered}
	b.waiting++
	if deadline, ok := ctx.Deadline(); !ok {
		b.endless = true
	} else if deadline.After(b.until) {
		b.until = deadline
	}
	if i := b.like(q); i >= 0 {
		b.asks[i].more = append(b.asks[i].more, me)
		return me
	}
	if b.merging {
		b.latest[q.all] = len(b.asks)
	}
	b.asks = append(b.asks, asked{question: *q, first: me})
	return me
}

// send asks for all who still wait, and answers them. The call ends with the last
// of their deadlines, or when none of them waits any more.
func (b *batch) send(ctx context.Context, l *lane) {
	defer close(b.done)
	call, cancel := b.start(ctx, l)
	defer cancel()
	b.sent = l.e.now()
	if len(b.asks) > 0 {
		l.e.together(call, b.asks)
	}
}

// start closes the batch: who has given up is left out, and who gives up from now
// on changes nothing. The context is that of the call; ctx is the sender's.
func (b *batch) start(ctx context.Context, l *lane) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.started = true
	kept := b.asks[:0]
	for i := range b.asks {
		if a := &b.asks[i]; a.stay() {
			kept = append(kept, *a)
		}
	}
	clear(b.asks[len(kept):])
	b.asks = kept
	l.start(b, b.waiting)
	var call context.Context
	if b.endless {
		call, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	} else {
		call, b.cancel = context.WithDeadline(context.WithoutCancel(ctx), b.until)
	}
	return call, b.cancel
}
