package window

// Mode decides how many units of an attempt are granted (R6).
type Mode uint8

// The modes, in the order of the public ones.
const (
	AllOrNothing Mode = iota
	Partial
	CountDenied
)

// State is the state of one limit at the instant of a decision.
type State struct {
	Used int64 // units that count, or that are missing from the bucket
	Last int64 // instant of the newest recorded attempt
	Drop int   // older entries, which no longer count
}

// Look returns the state of the history. now is not before Last.
func (h *History) Look(a *Arena, r *Rule, now int64) State {
	if r.Rate != 0 {
		return State{h.Missing(r.Refill, now), h.Last, 0}
	}
	used, drop := h.Used(a, r.Cutoff(now))
	return State{used, h.Last, drop}
}

// Room is the number of units that still fit; it can be below 0 (R5).
func (s *State) Room(r *Rule) int64 { return r.Max - s.Used }

// IntervalWait is the time until the minimum interval has passed, 0 if it has (R5).
func (s *State) IntervalWait(r *Rule, now int64) int64 {
	if r.MinInterval == 0 || now-s.Last >= r.MinInterval {
		return 0
	}
	return s.Last + r.MinInterval - now
}

// Grant returns the number of units granted of n, given the least room. open reports
// whether all minimum intervals have passed, full whether all n are granted (R6).
func Grant(mode Mode, n, room int64, open bool) (granted int64, full bool) {
	if open && n <= room {
		return n, true
	}
	if mode == Partial && open && room > 0 {
		return room, false
	}
	return 0, false
}

// Wait is the least time after now at which this limit alone would grant n units in full
// if no other call intervenes, or Never (R8). s is the history's state.
func (h *History) Wait(a *Arena, r *Rule, s *State, now, n int64) int64 {
	if s.Used+n <= r.Max && r.MinInterval == 0 {
		return 0
	}
	return h.wait(a, r, s, now, n)
}

// wait is Wait if n units do not fit, or an interval may be open. Wait alone is inlined.
func (h *History) wait(a *Arena, r *Rule, s *State, now, n int64) int64 {
	if n > r.Max {
		return Never
	}
	wait := s.IntervalWait(r, now)
	if need := s.Used + n - r.Max; need > 0 {
		wait = max(wait, h.leaving(a, r, s, now, need))
	}
	return wait
}

// leaving is the time until at least need of the units that count at now have left, or
// have flowed into the bucket; 0 < need <= s.Used.
func (h *History) leaving(a *Arena, r *Rule, s *State, now, need int64) int64 {
	if r.Rate != 0 {
		return h.until(r.Refill, now, s.Used-need)
	}
	return r.left(h.Leave(a, s.Drop, need), now)
}

// Reset is the time until no unit counts, or until the bucket is full.
func (h *History) Reset(r *Rule, s *State, now int64) int64 {
	switch {
	case s.Used == 0:
		return 0
	case r.Rate != 0:
		return h.until(r.Refill, now, 0)
	}
	return r.left(h.End(), now)
}

// Next is the time until the oldest unit that counts leaves, or the next one flows in; 0 if
// none counts.
func (h *History) Next(a *Arena, r *Rule, s *State, now int64) int64 {
	if s.Used == 0 {
		return 0
	}
	return h.leaving(a, r, s, now, 1)
}

// Longer reports whether wait x is longer than wait y; Never is the longest.
func Longer(x, y int64) bool {
	if x == Never || y == Never {
		return x == Never && y != Never
	}
	return x > y
}
