package fallback

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/window"
)

// openDecision returns the decision of an empty store. Unknown values stay zero:
// Remaining, ResetAfter and the states.
func openDecision(p *weir.Plan, r *weir.Request) weir.Decision {
	clear(r.States)
	d := weir.Decision{Allowed: true, Granted: r.N, At: instantOf(r), Degraded: true}
	if r.Op == weir.OpRecord {
		return d
	}
	binding := firstBelow(p, r.N)
	if binding == nil {
		return d
	}
	d.Granted, d.RetryAfter = 0, weir.Never
	if p.Mode() == weir.Partial {
		least := slices.MinFunc(p.Limits(), func(a, b weir.PlanLimit) int { return cmp.Compare(a.Capacity, b.Capacity) })
		d.Granted, _ = window.Grant(window.Partial, r.N, least.Capacity, true)
		binding = &least
	}
	d.Allowed = d.Granted > 0
	d.Limit = binding.Name
	return d
}

// firstBelow returns the first limit that an attempt of n units never fits, or nil.
func firstBelow(p *weir.Plan, n int64) *weir.PlanLimit {
	for i := range p.Limits() {
		if l := &p.Limits()[i]; l.Units(n) > l.Capacity {
			return l
		}
	}
	return nil
}

// instantOf returns the instant of the request, in whole microseconds. Without one it reads
// this process's clock.
func instantOf(r *weir.Request) time.Time {
	at, given := r.Instant()
	if !given {
		at = time.Now().UnixMicro()
	}
	return time.UnixMicro(at)
}
