package fallback

import (
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
	if binding < 0 {
		return d
	}
	d.Granted, d.RetryAfter = 0, weir.Never
	if p.Mode() == weir.Partial {
		binding = leastMax(p)
		d.Granted, _ = window.Grant(window.Partial, r.N, p.Limits()[binding].Max, true)
	}
	d.Allowed = d.Granted > 0
	d.Limit = p.Limits()[binding].Name
	return d
}

// leastMax returns the index of the first limit with the least Max.
func leastMax(p *weir.Plan) int {
	least := 0
	for i, l := range p.Limits() {
		if l.Max < p.Limits()[least].Max {
			least = i
		}
	}
	return least
}

// firstBelow returns the index of the first limit that an attempt of n units never
// fits, or -1.
func firstBelow(p *weir.Plan, n int64) int {
	for i := range p.Limits() {
		if l := &p.Limits()[i]; l.Units(n) > l.Max {
			return i
		}
	}
	return -1
}

// instantOf returns the instant of the request. Now is read from this process's clock.
func instantOf(r *weir.Request) time.Time {
	if r.At != weir.Now {
		return time.UnixMicro(r.At)
	}
	return time.UnixMicro(time.Now().UnixMicro())
}
