package fallback

import (
	"context"

	"github.com/weirlimit/weir"
)

// call is one call of a weir.Engine's method.
type call struct {
	plan    *weir.Plan
	key     weir.Key
	request weir.Request
	other   method // in place of Decide
	reads   bool   // other never changes the store
}

// method calls a method other than Decide.
type method func(ctx context.Context, e weir.Engine) (units int64, err error)

// result is the outcome of a call.
type result struct {
	decision weir.Decision
	units    int64 // of other
	err      error
}

// run calls the engine.
func (c *call) run(ctx context.Context, e weir.Engine) (r result) {
	if c.other != nil {
		r.units, r.err = c.other(ctx, e)
	} else {
		r.decision, r.err = e.Decide(ctx, c.plan, c.key, c.request)
	}
	return r
}

// writes reports whether the call may change the store.
func (c *call) writes() bool {
	if c.other != nil {
		return !c.reads
	}
	return c.request.Op != weir.OpPeek && c.request.N > 0
}
