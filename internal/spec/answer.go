package spec

import (
	"time"

	"github.com/weirlimit/weir/engine"
)

// bound names the limit that kept an attempt of n from being granted in full. v is the
// state before the attempt, after the state it left.
func (v view) bound(after view, mode engine.Mode, n, granted int64) string {
	if granted > 0 {
		return v.tightest()
	}
	return v.limits[v.denier(after, mode, n, v.all())].Name
}

// denier is, among some limits, the one that denied an attempt of n and has the longest wait
// after it, or -1 if none denied it.
func (v view) denier(after view, mode engine.Mode, n int64, among []int) int {
	binding := -1
	for _, i := range among {
		full := v.unitsOf(i, n) > v.roomOf(i)
		if mode == engine.Partial {
			full = v.roomOf(i) <= 0 // any room would have been granted
		}
		if (full || !v.openOf(i) || v.blockedOf(i)) && (binding < 0 || after.longer(i, binding, n)) {
			binding = i
		}
	}
	return binding
}

// all has the indices of all limits.
func (v view) all() []int {
	indices := make([]int, len(v.limits))
	for i := range indices {
		indices[i] = i
	}
	return indices
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

// answer sets the fields of a result that describe the state after a decision about n units (R8).
func (v view) answer(r *engine.Result, n int64) {
	r.Remaining = v.remaining()
	r.RetryAfter = v.wait(n)
	r.ResetAfter = v.reset()
	r.Blocked = v.blocked()
	r.At = time.UnixMicro(v.now)
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
		Remaining:   v.remainingOf(i),
		RetryAfter:  v.alone(i).wait(n),
		ResetAfter:  v.alone(i).reset(),
	}
	if limit.Kind == engine.KindConcurrency {
		s.MaxHold = micros(limit.Window)
	} else {
		s.Window = micros(limit.Window)
	}
	if !v.openOf(i) {
		s.MinIntervalAfter = micros(v.past[i].newest() + limit.MinInterval - v.now)
	}
	s.NextAfter = v.leaving(i)
	if s.Ahead = v.past[i].booked(); s.Ahead > 0 {
		s.LastAhead = micros(v.past[i].newest() - v.now)
	}
	s.Blocked = micros(v.blocks[i].rest(v.now))
	s.NextAfter = max(s.NextAfter, s.Blocked)
	return s
}

// leaving is the time until the oldest unit of limit i that counts leaves, or until the next one
// flows into its bucket. Those of appointments follow those that count.
func (v view) leaving(i int) time.Duration {
	limit := v.limits[i]
	for _, s := range v.past[i].stages(limit, v.now) {
		for _, e := range s.entries {
			if e.units > 0 && e.u > cutoff(limit, s.from) {
				return micros(leaves(limit, e.u, s.from) - v.now)
			}
		}
		if b := s.bucket; b != nil && b.units(s.from) > 0 {
			return micros(b.until(b.units(s.from)-1) - v.now)
		}
	}
	return 0
}
