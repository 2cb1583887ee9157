// Package window is the arithmetic of a rolling window on whole microseconds:
// which entries count, how much room is left, whether the gap is open, how long
// to wait. It knows no clock, lock, map or context; the instant is always an
// argument. Comments quote the rules of docs/semantics.md.
//
// Start at History, the record of one limit and one key, then State, from which
// room, gap and wait follow, and Grant, which is the mode's answer.
package window

// Never is a wait that does not end (R8).
const Never int64 = -1

// MaxUnits is the most units of an entry and of a limit, and the last instant: whole
// numbers up to it are exact as doubles.
const MaxUnits int64 = 1<<53 - 1

// Forever is after every instant.
const Forever int64 = 1<<63 - 1

// Step is how far a clock may be behind a history and still count as merely
// out of order rather than corrected: 1 s in microseconds, exclusive (R2).
const Step int64 = 1_000_000

// Rule is the numbers of one limit. Times are microseconds.
type Rule struct {
	Max         int64 // units, 0 … 2^53-1
	Window      int64 // > 0
	MinInterval int64 // 0 … Window
	Cell        int64 // width of a cell, or of a window of the calendar; 0 = exact (R3, R9)
	Ahead       int64 // from the beginning of a cell to what its units are remembered by: Cell, or 0 of the calendar
	FirstHit    bool  // a window begins with the first unit after the last one has ended (R3)
}

// End returns the instant by which an entry of instant t is remembered: t
// itself or, with cells, the end of its cell. Since the cell is floored and the
// window one cell longer (R9), an entry counts at now exactly while
// End > now - Window, in both forms. A window of the calendar is remembered by its
// beginning, so that all of it leaves when it is over (R3).
func (r *Rule) End(t int64) int64 {
	if r.Cell == 0 {
		return t
	}
	return min(t-t%r.Cell+r.Ahead, MaxUnits) // no instant is later
}

// EndOf returns the end of the entry that units recorded at now go into: the window
// that is open, if windows begin with their first unit, or the rule's End (R3). A
// history that is to be corrected is so first.
func (h *History) EndOf(r *Rule, now int64) int64 {
	if r.FirstHit && h.End > now-r.Window {
		return h.End
	}
	return r.End(now)
}

// Holder returns the end of the entry that holds what was granted at instant at, if
// any does (R10).
func (h *History) Holder(r *Rule, at int64) int64 {
	if r.FirstHit && h.End <= at && at < h.End+r.Window {
		return h.End
	}
	return r.End(at)
}
