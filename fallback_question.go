package weir

import (
	"context"
	"slices"
	"strings"
)

// question is one call of an Engine's methods.
type question struct {
	method method
	plan   *Plan
	key    Key
	ask    Ask   // of a decision; of the others, N, At and ID are units, instant and name
	at     int64 // of a refund: the instant of the entry
	limit  int   // of a count: which
	last   int64 // of a count: over how many microseconds
}

type method uint8

const (
	decides method = iota
	refunds
	counts
	resets
)

// reply is what the call returned.
type reply struct {
	decision Decision
	units    int64 // of a refund or a count
	err      error
}

// put calls the engine.
func (q *question) put(ctx context.Context, e Engine, r *reply) {
	switch q.method {
	case decides:
		r.decision, r.err = e.Decide(ctx, q.plan, q.key, q.ask)
	case refunds:
		r.units, r.err = refundOnce(ctx, e, q.plan, q.key, q.at, q.ask.N, q.ask.At, q.ask.ID)
	case counts:
		r.units, r.err = e.Count(ctx, q.plan, q.key, q.limit, q.last, q.ask.At)
	case resets:
		r.err = e.Reset(ctx, q.plan, q.key)
	}
}

// writes reports whether the call may change the store.
func (q *question) writes() bool {
	switch q.method {
	case decides:
		return q.ask.Op != OpPeek && q.ask.N > 0
	case counts:
		return false
	}
	return true
}

// kept returns a copy that may outlive the call: an Engine's caller lends its key
// and its states only until it has its answer.
func (q *question) kept() question {
	c := *q
	for i := range c.key.first {
		c.key.first[i] = strings.Clone(c.key.first[i])
	}
	c.key.more = slices.Clone(c.key.more)
	for i := range c.key.more {
		c.key.more[i] = strings.Clone(c.key.more[i])
	}
	c.ask.States = slices.Clone(c.ask.States)
	c.ask.ID = strings.Clone(c.ask.ID)
	return c
}
