// Package calendar finds the windows of limits that begin with the hours, days, weeks and
// months of a time zone (R3).
package calendar

import (
	"fmt"
	"time"
)

// Period is a length of the wall clock for Fixed windows.
type Period uint8

// The periods. Hour, Day and Month windows begin with the clock's, Week windows on Monday,
// unless an Anchor selects another day.
const (
	NoPeriod Period = iota
	Hour
	Day
	Week
	Month
)

// String returns the name of the period in a policy file, such as "month".
func (p Period) String() string {
	if p < Hour || p > Month {
		return fmt.Sprintf("Period(%d)", uint8(p))
	}
	return [...]string{"", "hour", "day", "week", "month"}[p]
}

// Length returns the length of the period without changes of the clock. The length of a
// month is 31 days.
func (p Period) Length() time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{0, time.Hour, day, 7 * day, 31 * day}[p]
}

// LongestShift is the most microseconds by which a change of the clock makes a period
// longer. The largest since 1970 was a day, at the date line.
const LongestShift = int64(24 * time.Hour / time.Microsecond)

// Windows are the windows of a Fixed limit with a Period: each begins with the period by
// the wall clock of a zone (R3).
type Windows struct {
	Period Period
	Zone   *time.Location
	Anchor int // the first day of a Month (1 … 31) or a Week (1 = Monday … 7 = Sunday); for the other periods 1
}

// WindowAt returns the window that contains an instant: its first instant and the first one
// behind it, in microseconds since 1970. The window of an instant since 1970 begins with the
// first of these (R1), if not later.
func (w *Windows) WindowAt(at int64) (start, end int64) {
	wall := w.boundary(time.UnixMicro(at).In(w.Zone))
	start, end = w.edge(wall), w.edge(w.next(wall))
	// Behind a change of the clock over a boundary the wall shows the period before, and
	// a day without any instant has no window.
	for end <= at {
		wall = w.next(wall)
		start, end = end, w.edge(w.next(wall))
	}
	if at >= 0 {
		start = max(start, 0)
	}
	return start, end
}

// boundary returns the reading of the wall clock at which the period of t begins, as if it
// were UTC.
func (w *Windows) boundary(t time.Time) time.Time {
	year, month, day := t.Date()
	switch w.Period {
	case Hour:
		return time.Date(year, month, day, t.Hour(), 0, 0, 0, time.UTC)
	case Week:
		since := (int(t.Weekday()) - w.Anchor + 7) % 7
		return time.Date(year, month, day-since, 0, 0, 0, 0, time.UTC)
	case Month:
		if b := w.inMonth(year, month); day >= b.Day() {
			return b
		}
		return w.inMonth(year, month-1)
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// next returns the boundary behind one.
func (w *Windows) next(wall time.Time) time.Time {
	switch w.Period {
	case Hour:
		return wall.Add(time.Hour)
	case Week:
		return wall.AddDate(0, 0, 7)
	case Month:
		return w.inMonth(wall.Year(), wall.Month()+1)
	}
	return wall.AddDate(0, 0, 1)
}

// inMonth returns the anchor's day in a month, or the last day of a shorter month.
func (w *Windows) inMonth(year int, month time.Month) time.Time {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	return last.AddDate(0, 0, min(w.Anchor, last.Day())-last.Day())
}

// edge returns the first instant at which the clock on the wall shows that reading or a
// later one. A reading that the clock skips gives the instant of the change, and one that
// it shows twice the first.
func (w *Windows) edge(wall time.Time) int64 {
	// No offset is as long as 36 hours, so the wall shows less then.
	for t := wall.Add(-36 * time.Hour).In(w.Zone); ; {
		_, seconds := t.Zone()
		_, change := t.ZoneBounds()
		if !change.IsZero() && !change.After(t) {
			// On December 31 of a leap year ZoneBounds may return an end that is over. Clocks
			// change at full quarters of an hour.
			change = t.Add(15 * time.Minute)
		}
		at := wall.Add(-time.Duration(seconds) * time.Second) // where this offset shows the reading
		if at.Before(t) {
			at = t
		}
		if change.IsZero() || at.Before(change) {
			return at.UnixMicro()
		}
		t = change
	}
}
