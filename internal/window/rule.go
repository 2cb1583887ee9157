// Package window is the arithmetic of a rolling window in whole microseconds: which
// entries count, how much room is left, whether the minimum interval has passed, and how
// long to wait. It has no clock, lock, map or context; the instant is always an argument.
// Comments cite the rules of docs/semantics.md.
//
// Start at [History], the entries of one limit and one key. Look returns its [State], with
// the room and the minimum interval. [Grant] returns the units that an attempt gets with these.
// [History.Wait] returns the time until a denied attempt fits.
package window

// Never is the wait of an attempt that can never fit (R8). As the greatest number it compares
// as the longest wait. Only package memory converts it, to engine.Never.
const Never int64 = 1<<63 - 1

// MaxUnits is the most units of a limit and of an attempt. A history holds fewer than twice
// as many.
const MaxUnits int64 = 1<<51 - 1

// MaxInstant is the last instant.
const MaxInstant int64 = 1<<53 - 1

// Forever is after every instant.
const Forever int64 = 1<<63 - 1

// Rule holds the numbers of one limit. Times are microseconds.
type Rule struct {
	Max         int64  // units, 0 … MaxUnits
	Window      int64  // > 0
	MinInterval int64  // 0 … Window
	Cell        int64  // width of a cell or of a calendar window; 0 = exact (R3, R9)
	Ahead       int64  // from the beginning of a cell to the end of its entries: Cell, or 0 for calendar windows
	Rate        uint32 // the engine's number of the Refill, above 0 for buckets
	Narrow      bool   // entries of one unit fit the narrow form of a history: an exact rolling window below 2^32 µs, and no CountDenied
	FromFirst   bool   // a window begins with the first unit after the last window has ended (R3)

	Start, Stop int64   // a Period's window: its first instant, and the first behind it; otherwise 0 (R3)
	Refill      *Refill // a bucket's rate, with capacity Max (R16); otherwise nil
}

// Cutoff returns the newest end of an entry that no longer counts at now (R3).
func (r *Rule) Cutoff(now int64) int64 {
	if r.Stop != 0 {
		return r.Start - 1
	}
	return now - r.Window
}

// left returns the time until an entry that counts at now leaves.
func (r *Rule) left(end, now int64) int64 {
	if r.Stop != 0 {
		return r.Stop - now
	}
	return end + r.Window - now
}

// End returns the instant that is stored with an entry of instant t: t itself or, with
// cells, the end of its cell (R9). In both forms an entry counts at now exactly while
// End > now - Window. With calendar windows it is the beginning of the window, so that all
// units leave when the window is over (R3).
func (r *Rule) End(t int64) int64 {
	if r.Cell == 0 {
		if r.Start <= t && t < r.Stop {
			return r.Start
		}
		return t // in another window of a Period nothing counts
	}
	return min(t-t%r.Cell+r.Ahead, MaxInstant) // no instant is later
}

// EndOf returns the end of the entry to which units recorded at now belong: that of the
// open window if windows begin with their first unit, otherwise the rule's End (R3). Correct
// the clock before (Redate).
func (h *History) EndOf(r *Rule, now int64) int64 {
	if r.Narrow {
		return now
	}
	if r.FromFirst && h.End() > now-r.Window {
		return h.End()
	}
	return r.End(now)
}

// Holder returns the end of the entry with the units granted at instant at, if there is
// one. In a window of a Period it is the newest entry (R10).
func (h *History) Holder(r *Rule, at int64) int64 {
	if end := h.End(); r.FromFirst && end <= at && at < end+r.Window || r.Start <= at && at < r.Stop {
		return end
	}
	return r.End(at)
}

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

// Grant returns the number of units granted of n, given the least room. open reports whether
// all minimum intervals have passed, partial whether fewer than n may be granted, and full
// whether all are (R6).
func Grant(n, room int64, open, partial bool) (granted int64, full bool) {
	if open && n <= room {
		return n, true
	}
	if partial && open && room > 0 {
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
		wait = max(wait, h.Leaving(a, r, s, now, need))
	}
	return wait
}

// Leaving is the time until at least need of the units that count at now have left, or
// have flowed into the bucket; 0 < need <= s.Used.
func (h *History) Leaving(a *Arena, r *Rule, s *State, now, need int64) int64 {
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
	return h.Leaving(a, r, s, now, 1)
}
