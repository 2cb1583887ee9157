package weirhttp

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// queue lets the requests of a transport wait in order, and holds them back during a pause of
// the server. Only keys with waiting requests or a pause are in it. The zero queue is empty.
//
// One request of a key at a time makes an attempt: if all made one at the announced instant, all
// but one would be denied again.
type queue struct {
	mu       sync.Mutex // protects the following, and all lines
	lines    map[string]*line
	releases int // ends of holds so far
}

// line is the waiting requests with one key.
type line struct {
	waiting []*waiter   // in their order; the first one makes attempts
	booked  []*waiter   // with granted units, in the order of their attempts, until their start
	next    *denial     // the answer to the first one; nil = it made no attempt
	pause   time.Time   // the server's pause lasts until then
	over    *time.Timer // forgets the line at the end of the pause; nil = no pause so far

	released int // the queue's releases at the last end of a hold with this key, or later
}

// denial is an answer of the limiter.
type denial struct {
	decision weir.Decision
	next     time.Time // the instant of the next attempt
	isFirm   bool      // no attempt before next can succeed
	isOwn    bool      // only the end of a hold with the same key makes room before next
	releases int       // ends of holds before the attempt
}

// waiter is one waiting request.
type waiter struct {
	wake        chan struct{} // holds one signal
	deadline    time.Time
	hasDeadline bool
	start       time.Time // the instant at which a booked request may be sent
}

func newWaiter(ctx context.Context) *waiter {
	w := &waiter{wake: make(chan struct{}, 1)}
	w.deadline, w.hasDeadline = ctx.Deadline()
	return w
}

// signal wakes the waiter, now or when it sleeps next.
func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// sleep waits for a time, a signal, or the end of ctx. Below 0 the time is without an end.
func (w *waiter) sleep(ctx context.Context, wait time.Duration) {
	var expired <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-expired:
	case <-w.wake:
	case <-ctx.Done():
	}
}

// misses reports whether the deadline is before an instant.
func (w *waiter) misses(t time.Time) bool { return w.hasDeadline && t.After(w.deadline) }

// isFree reports whether no request of the key waits, and no pause holds it back.
func (q *queue) isFree(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	return l == nil || len(l.waiting) == 0 && !l.pause.After(time.Now())
}

// book takes a request out of its line after a grant: it is sent after startAfter. If a pause lasts
// longer than that, the request stays in its line, and book reports false.
func (q *queue) book(key string, w *waiter, startAfter time.Duration) bool {
	start := time.Now().Add(startAfter)
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if l != nil && l.pause.After(start) {
		return false
	}
	if startAfter > 0 {
		l = q.lineLocked(key)
		l.removeWaiting(w)
		w.start = start
		l.booked = append(l.booked, w)
	}
	return true
}

// untilStart returns the time until a booked request may be sent. isBooked is false if a pause has
// moved it back into its line.
func (q *queue) untilStart(key string, w *waiter) (wait time.Duration, isBooked bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Until(w.start), slices.Contains(q.lines[key].booked, w)
}

// lineLocked returns the line of a key, which may be new.
func (q *queue) lineLocked(key string) *line {
	l := q.lines[key]
	if l == nil {
		l = new(line)
		if q.lines == nil {
			q.lines = map[string]*line{}
		}
		q.lines[key] = l
	}
	return l
}

// forgetLocked removes the line of a key that nothing needs any more.
func (q *queue) forgetLocked(key string) {
	l := q.lines[key]
	if l == nil || len(l.waiting) > 0 || len(l.booked) > 0 || l.pause.After(time.Now()) {
		return
	}
	if l.over != nil {
		l.over.Stop()
	}
	delete(q.lines, key)
}

// join appends a request to its line. denied is the answer that it got before, or nil.
func (q *queue) join(key string, w *waiter, denied *denial) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lineLocked(key)
	if len(l.waiting) == 0 {
		l.next = denied
		l.released = q.releases // ends before there was a line count as those of this key
	}
	l.waiting = append(l.waiting, w)
}

// leave removes a request from its line, and wakes the next one if it was the first.
func (q *queue) leave(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if l == nil {
		return
	}
	l.removeWaiting(w)
	if at := slices.Index(l.booked, w); at >= 0 {
		l.booked = slices.Delete(l.booked, at, at+1)
	}
	q.forgetLocked(key)
}

// removeWaiting removes a request from those that wait, and wakes the next one if it was the first.
func (l *line) removeWaiting(w *waiter) {
	at := slices.Index(l.waiting, w)
	if at < 0 {
		return
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	if at == 0 && len(l.waiting) > 0 {
		l.waiting[0].signal()
	}
}

// waitTime returns the time for which a request waits before it looks again: 0 if it may attempt
// its unit now, and below 0 until a signal. The error is that of a wait beyond the deadline.
func (q *queue) waitTime(key string, w *waiter) (time.Duration, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if w.misses(l.pause) {
		return 0, fmt.Errorf("weirhttp: the server asked for no requests until %s (Retry-After), "+
			"so this one was not sent: %w",
			l.pause.UTC().Format(time.RFC3339), weir.ErrDeadline)
	}
	next := l.pause
	if l.next != nil {
		if l.next.isFirm && w.misses(l.next.next) {
			return 0, &weir.WaitError{Decision: l.next.decision, Cause: weir.ErrDeadline, N: 1}
		}
		if !q.hasEndedLocked(l) && l.next.next.After(next) {
			next = l.next.next
		}
	}
	if l.waiting[0] != w {
		return -1, nil
	}
	return max(0, time.Until(next)), nil
}

// hasEndedLocked reports whether a hold for which a line waits has ended since its attempt.
func (q *queue) hasEndedLocked(l *line) bool {
	switch {
	case l.next.isFirm:
		return false
	case l.next.isOwn:
		return l.released > l.next.releases
	}
	return q.releases > l.next.releases
}

// deny stores the denial of the first request of a line. If the denial is firm, it wakes the
// requests behind with a deadline before the next attempt, because their turn comes too late.
func (q *queue) deny(key string, denied *denial) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	l.next = denied
	if denied.isFirm {
		l.signalMissing(denied.next)
	}
}

// signalMissing wakes the requests with a deadline before an instant.
func (l *line) signalMissing(next time.Time) {
	for _, w := range l.waiting {
		if w.misses(next) {
			w.signal()
		}
	}
}

// decision returns the last denial of a line; the zero Decision if there is none.
func (q *queue) decision(key string) weir.Decision {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[key]; l != nil && l.next != nil {
		return l.next.decision
	}
	return weir.Decision{}
}

// pause holds the requests of a key back. A shorter pause does not replace a longer one.
func (q *queue) pause(key string, d time.Duration) {
	until := time.Now().Add(d)
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lineLocked(key)
	if d > 0 && until.After(l.pause) {
		l.pause = until
		if l.over != nil {
			l.over.Stop()
		}
		l.over = time.AfterFunc(d, func() { q.forget(key) })
		l.unbook(until)
		l.signalMissing(until)
	}
	q.forgetLocked(key)
}

// unbook moves the booked requests that would be sent before an instant to the head of the line.
// Their units are given back, and they attempt others.
func (l *line) unbook(until time.Time) {
	var moved, kept []*waiter
	for _, w := range l.booked {
		if w.start.Before(until) {
			moved = append(moved, w)
			w.signal()
		} else {
			kept = append(kept, w)
		}
	}
	if len(moved) > 0 {
		l.next = nil // a denial of another attempt
	}
	l.waiting, l.booked = append(moved, l.waiting...), kept
}

// forget removes the line of a key after its pause.
func (q *queue) forget(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetLocked(key)
}

// countReleases returns the number of ended holds.
func (q *queue) countReleases() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.releases
}

// release counts the end of a hold of a key, and wakes the first request that waits for it. If
// keys share a concurrency limit, it wakes the first one of each that waits for a shared one.
func (q *queue) release(key string, shares bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.releases++
	if l := q.lines[key]; l != nil {
		l.released = q.releases
		l.signalEnd()
	}
	if !shares {
		return
	}
	for _, l := range q.lines {
		if l.next != nil && !l.next.isOwn {
			l.signalEnd()
		}
	}
}

// signalEnd wakes the first request of a line that waits for the end of a hold.
func (l *line) signalEnd() {
	if len(l.waiting) > 0 && l.next != nil && !l.next.isFirm {
		l.waiting[0].signal()
	}
}
