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

// Forever is after every instant.
const Forever int64 = 1<<63 - 1

// Step is how far a clock may be behind a history and still count as merely
// out of order rather than corrected: 1 s in microseconds, exclusive (R2).
const Step int64 = 1_000_000

// Rule is the numbers of one limit. Times are microseconds.
type Rule struct {
	Max    int64 // units, 0 … 2^53-1
	Window int64 // > 0
	Gap    int64 // 0 … Window
	Cell   int64 // width of a cell, 0 = exact (R9)
}

// End returns the instant by which an entry of instant t is remembered: t
// itself or, with cells, the end of its cell. Since the cell is floored and the
// window one cell longer (R9), an entry counts at now exactly while
// End > now - Window, in both forms.
func (r *Rule) End(t int64) int64 {
	if r.Cell == 0 {
		return t
	}
	return t - t%r.Cell + r.Cell
}
