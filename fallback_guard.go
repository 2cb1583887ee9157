package weir

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// PromptEngine is an Engine that may promise to return as soon as its context
// ends. A FallbackEngine calls one that does directly, and every other one on a
// goroutine that it can leave behind.
type PromptEngine interface {
	Engine

	// EndsWithContext reports whether every method returns, within a millisecond
	// or so, when its context ends, whatever the store does.
	EndsWithContext() bool
}

// guard puts questions to an engine within the budget, and stops when it fails.
type guard struct {
	engine  Engine
	budget  time.Duration // 0 = none
	start   time.Time
	breaker breaker
	share   func() *share // of mode Local, made when it is first used
	hold    *hold         // nil without Hold

	waits   bool // the engine may wait for something
	prompt  bool // it stops when its context ends
	overdue atomic.Int64

	failures, timeouts, degraded atomic.Int64
}

// now is the time since the guard was made, in nanoseconds: monotonic.
func (g *guard) now() int64 { return int64(time.Since(g.start)) }

// ask puts q to the store if the breaker lets it. It reports whether the store
// decided, or the call is otherwise over: r then holds what the caller gets. If
// not, r.err says why.
func (g *guard) ask(ctx context.Context, q *question, r *reply) (done bool) {
	p := g.breaker.admit()
	if p == refused {
		r.err = g.breaker.shut.Load()
		if hasLeft(ctx) { // a grant is of no use to whoever left
			r.err = leaving(ctx)
			return true
		}
		return false
	}
	if p == trying {
		if g.hold == nil && g.waits && g.budget > 0 {
			return g.probe(ctx, q, r)
		}
		defer g.breaker.release()
	}
	var asked int64
	if g.hold != nil {
		asked = g.now()
	}
	g.put(ctx, q, r)
	return g.conclude(ctx, p, asked, q, r)
}

// conclude takes in what became of a call that was made at the instant asked: r is
// what came of it, and becomes what the caller gets.
func (g *guard) conclude(ctx context.Context, p pass, asked int64, q *question, r *reply) (done bool) {
	if r.err == nil {
		g.breaker.succeeded(p)
		if g.hold != nil {
			g.hold.succeeded(asked, g.now())
		}
		return true
	}
	var v verdict
	v, r.err = g.judge(ctx, q, r.err)
	switch v {
	case answered:
		g.breaker.succeeded(p)
	case silent:
		if p == trying {
			g.breaker.again()
		}
	case unreadable:
		g.failures.Add(1)
		g.breaker.succeeded(p)
		return false
	case failed:
		g.failures.Add(1)
		if errors.As(r.err, new(outOfTime)) {
			g.timeouts.Add(1)
		}
		g.breaker.failed(r.err)
		if g.hold != nil {
			g.hold.failed(asked, g.now())
		}
	}
	return v != failed
}

// put calls the engine and returns within the budget.
func (g *guard) put(ctx context.Context, q *question, r *reply) {
	switch {
	case g.budget == 0 || !g.waits:
		q.put(ctx, g.engine, r)
	case g.prompt:
		ctx, cancel := context.WithTimeout(ctx, g.budget)
		defer cancel()
		q.put(ctx, g.engine, r)
	default:
		g.send(ctx, q, r)
	}
}
