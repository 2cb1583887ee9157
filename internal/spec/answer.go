package spec

import (
	"github.com/weirlimit/weir/engine"
)

// bound names the limit that kept an attempt of n from being granted in full. v is the
// state before the attempt, after the state it left.
func (v view) bound(after view, mode engine.Mode, n, granted int64) string {
	if granted > 0 {
		return v.tightest()
	}
	binding := -1
	for i := range v.limits {
		full := v.unitsOf(i, n) > v.roomOf(i)
		if mode == engine.Partial {
			full = v.roomOf(i) <= 0 // any room would have been granted
		}
		if (full || !v.openOf(i)) && (binding < 0 || after.longer(i, binding, n)) {
			binding = i
		}
	}
	return v.limits[binding].Name
}

// tightest names the first limit with the least room, which cut a partial grant (R6).
func (v view) tightest() string {
	for i := range v.limits {
		if v.roomOf(i) == v.room() {
			return v.limits[i].Name
		}
	}
	panic("spec: no limit has the least room")
}

// longer reports whether an attempt of n waits longer for limit i than for limit j. Never
// is the longest.
func (v view) longer(i, j int, n int64) bool {
	return v.alone(i).wait(n) > v.alone(j).wait(n)
}

// state describes limit i after a decision about n units.
func (v view) state(i int, n int64) engine.State {
	limit := v.limits[i]
	s := engine.State{
		Name:        limit.Name,
		Kind:        limit.Kind,
		Max:         limit.Max,
		Burst:       limit.Describe().Burst,
		MinInterval: micros(limit.MinInterval),
		Used:        v.used(i),
		Remaining:   v.roomOf(i),
		RetryAfter:  v.alone(i).wait(n),
		ResetAfter:  v.alone(i).reset(),
	}
	if limit.Kind == engine.KindConcurrency {
		s.MaxHold = micros(limit.Window)
	} else {
		s.Window = micros(limit.Window)
	}
	if !v.openOf(i) {
		s.MinIntervalAfter = micros(v.past[i].last + limit.MinInterval - v.now)
	}
	for _, e := range v.past[i].entries {
		if e.units > 0 && e.u > cutoff(limit, v.now) {
			s.NextAfter = micros(leaves(limit, e.u, v.now) - v.now)
			break
		}
	}
	if b := v.past[i].bucket; b != nil && b.units(v.now) > 0 {
		s.NextAfter = micros(b.until(b.units(v.now)-1) - v.now)
	}
	return s
}
