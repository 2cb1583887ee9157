package fallback

import (
	"context"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// call is one call of a weir.Engine's method.
type call struct {
	method  method
	plan    *weir.Plan
	key     weir.Key
	request weir.Request // of decide; other methods use its N, At and ID
	at      int64        // of refund: the instant of the grant
	limit   int          // of count: the index of the limit
	last    int64        // of count: the span in microseconds
}

type method uint8

const (
	decide method = iota
	refund
	count
	reset
)

// result is the outcome of a call.
type result struct {
	decision weir.Decision
	units    int64 // of refund and count
	err      error
}

// run calls the engine.
func (c *call) run(ctx context.Context, e weir.Engine) (r result) {
	switch c.method {
	case decide:
		r.decision, r.err = e.Decide(ctx, c.plan, c.key, c.request)
	case refund:
		if c.request.ID == "" {
			r.units, r.err = e.Refund(ctx, c.plan, c.key, c.at, c.request.N, c.request.At)
		} else {
			r.units, r.err = e.(weir.RefundOnceEngine).RefundOnce(ctx, c.plan, c.key, c.at, c.request.N, c.request.At, c.request.ID)
		}
	case count:
		r.units, r.err = e.Count(ctx, c.plan, c.key, c.limit, c.last, c.request.At)
	case reset:
		r.err = e.Reset(ctx, c.plan, c.key)
	}
	return r
}

// writes reports whether the call may change the store.
func (c *call) writes() bool {
	switch c.method {
	case decide:
		return c.request.Op != weir.OpPeek && c.request.N > 0
	case count:
		return false
	}
	return true
}

// clone returns a deep copy. A probe may outlive its caller, which owns the key, the states
// and the id again after the return.
func (c *call) clone() *call {
	d := *c
	values := make([]string, c.key.Len())
	for i := range values {
		values[i] = strings.Clone(c.key.Value(i))
	}
	d.key = weir.K(values...)
	d.request.States = slices.Clone(c.request.States)
	d.request.ID = strings.Clone(c.request.ID)
	return &d
}
