package weir

import (
	"time"

	"github.com/weirlimit/weir/internal/window"
)

// openDecision is the decision of a store in which nothing counts, made without one. What
// nobody knows stays zero: Remaining, ResetAfter and the states.
func openDecision(p *Plan, a *Ask) Decision {
	clear(a.States)
	d := Decision{Allowed: true, Granted: a.N, At: instantOf(a), Degraded: true}
	if a.Op == OpRecord {
		return d
	}
	binding := firstBelow(p, a.N)
	if binding < 0 {
		return d
	}
	d.Granted, d.RetryAfter = 0, Never
	if p.Mode() == Partial {
		binding = leastMax(p)
		d.Granted, _ = window.Grant(window.Partial, a.N, p.limits[binding].Max, true)
	}
	d.Allowed = d.Granted > 0
	d.Limit = p.limits[binding].Name
	return d
}

// leastMax returns the index of the first limit with the least Max.
func leastMax(p *Plan) int {
	least := 0
	for i := range p.limits {
		if p.limits[i].Max < p.limits[least].Max {
			least = i
		}
	}
	return least
}

// firstBelow returns the index of the first limit that an attempt of n units never
// fits, or -1.
func firstBelow(p *Plan, n int64) int {
	for i := range p.limits {
		if p.limits[i].Units(n) > p.limits[i].Max {
			return i
		}
	}
	return -1
}

// instantOf is the instant of the ask, by the clock of this process if it says Now.
func instantOf(a *Ask) time.Time {
	if a.At != Now {
		return time.UnixMicro(a.At)
	}
	return time.UnixMicro(time.Now().UnixMicro())
}
