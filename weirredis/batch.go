package weirredis

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// batch is the requests of several callers in one call.
type batch struct {
	start chan struct{} // the caller that receives from it sends the batch
	done  chan struct{} // closed when all callers have their replies
	sent  time.Time     // set before done is closed

	// The queue's mutex protects the following until started is set.
	ready   bool // a caller may receive from start
	big     bool // it counts as a big batch
	claimed bool // a caller is about to send it
	started bool // it is being sent
	scratch
	merging bool
	stays   bool               // a caller that cannot leave waits for start
	callers int                // that have not left; always protected
	sentFor int                // callers when it was sent
	until   time.Time          // the last deadline
	endless bool               // a caller has no deadline
	cancel  context.CancelFunc // ends the call when all callers have left
}

// scratch is a reusable buffer of requests.
type scratch struct {
	requests []shared
	latest   *latest // if requests are merged
}

// latest finds the last request for the same keys: a hash table with linear probing of
// indices in requests, plus 1. A map costs an eighth of a caller's processor time.
type latest [2 * maxRequests]uint8

// seed is that of the hashes in latest.
var seed = maphash.MakeSeed()

// of returns the place of the joined keys, which is 0 if no request has them.
func (l *latest) of(joined string, requests []shared) *uint8 {
	for i := maphash.String(seed, joined) % uint64(len(l)); ; i = (i + 1) % uint64(len(l)) {
		if n := l[i]; n == 0 || requests[n-1].joined == joined {
			return &l[i]
		}
	}
}

// clear empties the buffer.
func (s *scratch) clear() {
	clear(s.requests)
	s.requests = s.requests[:0]
	if s.latest != nil {
		*s.latest = latest{}
	}
}

// shared is one request and its callers.
type shared struct {
	request
	first *caller
	more  []*caller
}

// caller waits for a reply.
type caller struct {
	gone  bool // its context has ended; protected by the queue's mutex
	reply reply
	err   error
}

// idleCallers are reused, because a caller of its own for each request is half of the memory
// that the garbage collector has to free.
var idleCallers = sync.Pool{New: func() any { return new(caller) }}

// result returns the reply to me. The batch is done, so it does not refer to me again.
func (b *batch) result(me *caller) (reply, time.Time, error) {
	r, err := me.reply, me.err
	idleCallers.Put(me)
	return r, b.sent, err
}

// errUnanswered is the error of a caller in a batch that was not sent to its end.
var errUnanswered = errors.New("the call for several callers was aborted")

// maxMerged is the number of callers of one request.
const maxMerged = 255

// newBatch returns an empty batch that takes over the buffer s.
func newBatch(s *scratch, merging bool) *batch {
	b := &batch{start: make(chan struct{}, 1), done: make(chan struct{}), scratch: *s, merging: merging}
	if merging && b.latest == nil {
		b.latest = new(latest)
	}
	*s = scratch{}
	return b
}

// full reports whether no further request fits.
func (b *batch) full() bool { return len(b.requests) >= maxRequests }

// takes reports whether there is room for req.
func (b *batch) takes(req *request) bool {
	return !b.full() || b.equalTo(req) >= 0
}

// equalTo returns the index of the request that a caller of req may join, or -1. It is
// the last one for any of those histories, so that callers are served in their order.
func (b *batch) equalTo(req *request) int {
	if !b.merging || !req.canMerge() {
		return -1
	}
	i := int(*b.latest.of(req.joined, b.requests)) - 1
	if i >= 0 && (req.apart || i == len(b.requests)-1) && b.requests[i].equal(req) && b.requests[i].callers() < maxMerged {
		return i
	}
	return -1
}

// add adds a caller with its request.
func (b *batch) add(ctx context.Context, req *request) *caller {
	me := idleCallers.Get().(*caller)
	*me = caller{err: errUnanswered}
	b.callers++
	if deadline, ok := ctx.Deadline(); !ok {
		b.endless = true
	} else if deadline.After(b.until) {
		b.until = deadline
	}
	if i := b.equalTo(req); i >= 0 {
		b.requests[i].more = append(b.requests[i].more, me)
		return me
	}
	if b.merging {
		*b.latest.of(req.joined, b.requests) = uint8(len(b.requests) + 1)
	}
	b.requests = append(b.requests, shared{request: *req, first: me})
	return me
}

// call sends the requests of all callers that still wait and delivers the replies. The
// call ends with the last of their deadlines, or when all callers have left.
func (b *batch) call(ctx context.Context, q *queue) {
	defer close(b.done)
	callCtx, cancel := b.close(ctx, q)
	defer cancel()
	b.sent = q.e.now()
	if len(b.requests) > 0 {
		q.e.callBatch(callCtx, b.requests)
	}
}

// close removes the callers that have left; the requests do not change any more. It
// returns the context of the call; ctx is the sender's.
func (b *batch) close(ctx context.Context, q *queue) (context.Context, context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b.started = true
	kept := b.requests[:0]
	for i := range b.requests {
		if s := &b.requests[i]; s.dropGone() {
			kept = append(kept, *s)
		}
	}
	clear(b.requests[len(kept):])
	b.requests = kept
	q.sending(b)
	var callCtx context.Context
	if b.endless {
		callCtx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	} else {
		callCtx, b.cancel = context.WithDeadline(context.WithoutCancel(ctx), b.until)
	}
	return callCtx, b.cancel
}

// callers returns the number of callers.
func (s *shared) callers() int { return 1 + len(s.more) }

// caller returns caller i, from 0.
func (s *shared) caller(i int) *caller {
	if i == 0 {
		return s.first
	}
	return s.more[i-1]
}

// dropGone removes callers whose context has ended, and reports whether any is left.
func (s *shared) dropGone() bool {
	s.more = slices.DeleteFunc(s.more, func(c *caller) bool { return c.gone })
	if s.first.gone {
		if len(s.more) == 0 {
			return false
		}
		s.first, s.more = s.more[0], s.more[1:]
	}
	return true
}

// deliver gives every caller its part of the reply.
func (s *shared) deliver(r *reply, err error) {
	for i := range s.callers() {
		c := s.caller(i)
		if c.err = err; err != nil {
			continue
		}
		c.reply = *r
		if s.callers() > 1 {
			c.reply = r.part(&s.request, int64(i))
		}
	}
}
