package fallback

import (
	"context"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// call is one call of a weir.Engine's method.
type call struct {
	plan    *weir.Plan
	key     weir.Key
	request weir.Request // of Decide; of the other methods only the ID
	other   method       // in place of Decide
	reads   bool         // other never changes the store
}

// method calls a method other than Decide. The key and the id are those of the call.
type method func(ctx context.Context, e weir.Engine, k weir.Key, id string) (units int64, err error)

// result is the outcome of a call.
type result struct {
	decision weir.Decision
	units    int64 // of other
	err      error
}

// run calls the engine.
func (c *call) run(ctx context.Context, e weir.Engine) (r result) {
	if c.other != nil {
		r.units, r.err = c.other(ctx, e, c.key, c.request.ID)
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
