package engine

import (
	"fmt"
	"time"
)

// Period is a length of the wall clock, for the windows of a KindFixed limit. The zero Period,
// NoPeriod, stands for windows of another length.
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

// longestShift is the most microseconds by which a change of the clock makes a period
// longer. The largest since 1970 was a day, at the date line.
const longestShift = int64(24 * time.Hour / time.Microsecond)

// Calendar has the windows of a KindFixed limit with a Period: each begins with the period by
// the wall clock of a zone (R3). All fields must be set.
type Calendar struct {
	Period Period         // Hour, Day, Week or Month
	Zone   *time.Location // time.UTC, or a zone of the IANA database
	Anchor int            // first day of a Month, 1 … 31, or of a Week, 1 (Monday) … 7; otherwise 1
}

// WindowAt returns the window that contains an instant: its first instant and the first one
// behind it, in microseconds since 1970. The window of an instant since 1970 begins with the
// first of these (R1), if not later.
func (c *Calendar) WindowAt(at int64) (start, end int64) {
	t := time.UnixMicro(at).In(c.Zone)
	wall := c.boundary(t, 1)
	start, end = c.edge(c.boundary(t, 0)), c.edge(wall)
	// Behind a change of the clock over a boundary the wall shows the period before, and
	// a day without any instant has no window.
	for end <= at {
		wall = c.boundary(wall, 1)
		start, end = end, c.edge(wall)
	}
	if at >= 0 {
		start = max(start, 0)
	}
	return start, end
}

// boundary returns the reading of the wall clock at which the period of t begins, as if it
// were UTC, or at which a later period begins.
func (c *Calendar) boundary(t time.Time, later int) time.Time {
	year, month, day := t.Date()
	hour := 0
	switch c.Period {
	case Hour:
		hour = t.Hour() + later
	case Week:
		day += 7*later - (int(t.Weekday())-c.Anchor+7)%7
	case Month:
		if day < c.inMonth(year, month).Day() {
			later--
		}
		return c.inMonth(year, month+time.Month(later))
	default:
		day += later
	}
	return time.Date(year, month, day, hour, 0, 0, 0, time.UTC)
}

// inMonth returns the anchor's day in a month, or the last day of a shorter month.
func (c *Calendar) inMonth(year int, month time.Month) time.Time {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	return last.AddDate(0, 0, min(c.Anchor, last.Day())-last.Day())
}

// edge returns the first instant at which the clock on the wall shows that reading or a
// later one. A reading that the clock skips gives the instant of the change, and one that
// it shows twice the first.
func (c *Calendar) edge(wall time.Time) int64 {
	// No offset is as long as 36 hours, so the wall shows less then.
	for t := wall.Add(-36 * time.Hour).In(c.Zone); ; {
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
