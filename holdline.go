package weir

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
)

// holdLines are the callers of Wait in this process that wait under a concurrency limit. Only
// histories with waiting callers are in it.
//
// A caller waits in the line of the history that denied it, and the first one of a line makes
// attempts. So those of other histories do not wait for it.
var holdLines struct {
	releases atomic.Int64 // ends of holds so far
	waiting  atomic.Int64 // callers in all lines

	mu    sync.Mutex                // protects the following
	lines map[historyName][]*waiter // in their order
}

// historyName names a history in this process.
type historyName struct {
	engine any    // as engineID returns it
	name   string // policy, limit, kind, and the values that the limit counts by
}

// waiter is a caller that waits in a line.
type waiter struct {
	wake chan struct{} // holds one signal
	line historyName   // the line in which it waits; the zero name = in none
}

// signal wakes the waiter, now or when it sleeps next.
func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// holdPoll returns the time after which the first caller of a line looks again, since other
// processes end holds without notice: 150 to 250 ms, so that processes do not look in step.
func holdPoll() time.Duration { return 150*time.Millisecond + rand.N(100*time.Millisecond) }

// waitInLine is WaitN under a concurrency limit.
func (l *Limiter) waitInLine(ctx context.Context, key *Key, n int64) (Decision, error) {
	w := &waiter{wake: make(chan struct{}, 1)}
	histories := l.historiesOf(key)
	if !neverFits(l.whole, n) { // an attempt tells
		w.joinBusy(histories)
	}
	defer w.leave()
	var d Decision
	for {
		if !w.isFirst() {
			if err := sleep(ctx, Never, w.wake); err != nil {
				return d, &WaitError{Decision: d, Cause: err, N: n}
			}
			continue
		}
		releases := holdLines.releases.Load()
		var err error
		if d, err = l.attemptWhole(ctx, key, n); err != nil || d.Allowed {
			return d, err
		}
		at := max(0, l.whole.LimitNamed(d.Limit))
		isFirm := l.whole.Limits[at].Kind != KindConcurrency || d.Blocked > 0
		if cause := whyHopeless(ctx, &d); cause == ErrNever || isFirm && cause != nil {
			return d, &WaitError{Decision: d, Cause: cause, N: n}
		}
		w.join(histories[at], releases)
		wait := nextTry(&d)
		if !isFirm {
			wait = min(wait, holdPoll())
		}
		if w.isFirst() {
			err = sleep(ctx, wait, w.wake)
		}
		if err != nil {
			return d, &WaitError{Decision: d, Cause: err, N: n}
		}
	}
}

// hasHold reports whether the rules have a concurrency limit.
func hasHold(rules *engine.Compiled) bool {
	isHold := func(l engine.Limit) bool { return l.Kind == KindConcurrency }
	return slices.ContainsFunc(rules.Limits, isHold)
}

// neverFits reports whether an attempt needs more than the capacity of a limit.
func neverFits(rules *engine.Compiled, n int64) bool {
	isAbove := func(l engine.Limit) bool { return l.Units(n) > l.Capacity }
	return slices.ContainsFunc(rules.Limits, isAbove)
}

// historiesOf returns the names of the key's histories, in the order of the limits.
func (l *Limiter) historiesOf(key *Key) []historyName {
	names := make([]historyName, len(l.rules.Limits))
	for i := range names {
		names[i] = l.historyOf(i, key)
	}
	return names
}

// historyOf returns the name of the key's history of limit i. Each part stands behind its length,
// so that no two tuples share a name.
func (l *Limiter) historyOf(i int, key *Key) historyName {
	limit := &l.rules.Limits[i]
	var b []byte
	add := func(part string) {
		b = strconv.AppendInt(b, int64(len(part)), 10)
		b = append(append(b, ':'), part...)
	}
	add(limit.Policy)
	add(limit.Name)
	add(limit.Kind.String())
	for _, dimension := range limit.By { // in the order of their names (R12)
		add(l.rules.Dimensions[dimension])
		add(key.Value(dimension))
	}
	return historyName{l.engineID(), string(b)}
}

// engineID returns the engine that limiters with the same histories have in common. An engine of a
// type that cannot be compared is that of one limiter only.
func (l *Limiter) engineID() any {
	e := innermost(l.engine)
	if !reflect.ValueOf(e).Comparable() {
		return l
	}
	return e
}

// releaseHolds wakes the callers that wait for holds of the key, some of which have ended.
func (l *Limiter) releaseHolds(key *Key) {
	if !hasHold(l.rules) {
		return
	}
	holdLines.releases.Add(1)
	if holdLines.waiting.Load() == 0 {
		return
	}
	holdLines.mu.Lock()
	defer holdLines.mu.Unlock()
	for i := range l.rules.Limits {
		if l.rules.Limits[i].Kind != KindConcurrency {
			continue
		}
		if line := holdLines.lines[l.historyOf(i, key)]; len(line) > 0 {
			line[0].signal()
		}
	}
}

// joinBusy appends the waiter to the first line of the histories in which others wait, if there is
// one: it must not overtake them.
func (w *waiter) joinBusy(histories []historyName) {
	if holdLines.waiting.Load() == 0 {
		return
	}
	holdLines.mu.Lock()
	defer holdLines.mu.Unlock()
	for _, name := range histories {
		if len(holdLines.lines[name]) > 0 {
			w.appendLocked(name)
			return
		}
	}
}

// join makes the waiter one of the line of the history that denied it, at the end unless it is
// there already. releases are those before its attempt: if holds have ended since, it attempts
// again.
func (w *waiter) join(name historyName, releases int64) {
	if w.line != name {
		w.leave()
		holdLines.mu.Lock()
		w.appendLocked(name)
		holdLines.mu.Unlock()
	}
	if holdLines.releases.Load() != releases {
		w.signal()
	}
}

// appendLocked appends the waiter to a line.
func (w *waiter) appendLocked(name historyName) {
	if holdLines.lines == nil {
		holdLines.lines = map[historyName][]*waiter{}
	}
	holdLines.lines[name] = append(holdLines.lines[name], w)
	holdLines.waiting.Add(1)
	w.line = name
}

// isFirst reports whether no other caller of its line is before the waiter.
func (w *waiter) isFirst() bool {
	if w.line.engine == nil {
		return true
	}
	holdLines.mu.Lock()
	defer holdLines.mu.Unlock()
	return holdLines.lines[w.line][0] == w
}

// leave removes the waiter from its line, and wakes the next one if it was the first.
func (w *waiter) leave() {
	if w.line.engine == nil {
		return
	}
	holdLines.mu.Lock()
	defer holdLines.mu.Unlock()
	line := holdLines.lines[w.line]
	at := slices.Index(line, w)
	line = slices.Delete(line, at, at+1)
	holdLines.lines[w.line] = line
	holdLines.waiting.Add(-1)
	switch {
	case len(line) == 0:
		delete(holdLines.lines, w.line)
	case at == 0:
		line[0].signal()
	}
	w.line = historyName{}
}
