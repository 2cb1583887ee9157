package fallback

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// openDecision returns the decision of an empty store. Unknown values stay zero:
// Remaining, ResetAfter and the states.
func openDecision(c *engine.Call) engine.Result {
	r := engine.Result{Allowed: true, Granted: c.N, At: instantOf(c), Degraded: true}
	if c.Op == engine.Record {
		return r
	}
	binding := firstBelow(c)
	if binding == nil {
		return r
	}
	r.Granted, r.RetryAfter = 0, engine.Never
	if c.Rules.Mode == engine.Partial {
		least := slices.MinFunc(c.Rules.Limits, func(a, b engine.Limit) int { return cmp.Compare(a.Capacity, b.Capacity) })
		r.Granted, _ = window.Grant(window.Partial, c.N, least.Capacity, true)
		binding = &least
	}
	r.Allowed = r.Granted > 0
	r.Limit = binding.Name
	return r
}

// firstBelow returns the first limit that the attempt never fits, or nil.
func firstBelow(c *engine.Call) *engine.Limit {
	for i := range c.Rules.Limits {
		if l := &c.Rules.Limits[i]; l.Units(c.N) > l.Capacity {
			return l
		}
	}
	return nil
}

// instantOf returns the instant of the call, in whole microseconds. Without one it reads this
// process's clock.
func instantOf(c *engine.Call) time.Time {
	if c.Given {
		return time.UnixMicro(c.At)
	}
	return time.UnixMicro(time.Now().UnixMicro())
}
