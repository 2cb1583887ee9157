package weir

import (
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/shorten"
)

// String returns the name of the period in a policy file, such as "month".
func (p Period) String() string {
	switch p {
	case Hour:
		return "hour"
	case Day:
		return "day"
	case Week:
		return "week"
	case Month:
		return "month"
	}
	return fmt.Sprintf("Period(%d)", uint8(p))
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

// window returns Window, the length of the Period, or of Concurrency MaxHold.
func (l *Limit) window() time.Duration {
	if l.Period != NoPeriod {
		return l.Period.Length()
	}
	if l.Kind == Concurrency {
		return l.MaxHold
	}
	return l.Window
}

// periodProblem returns the field of a Period that is out of its range, and the reason.
func (l *Limit) periodProblem() (field, problem string) {
	switch {
	case l.Period > Month:
		return "Period", fmt.Sprintf("%d is not a period; use Hour, Day, Week or Month, or NoPeriod", l.Period)
	case l.Period == NoPeriod && l.Zone != "":
		return "Zone", fmt.Sprintf("%q without a Period; windows of another length have no time zone", shorten.Text(l.Zone))
	case l.Period == NoPeriod && l.Anchor != 0:
		return "Anchor", fmt.Sprintf("%d without a Period; use Month or Week, or 0", l.Anchor)
	case l.Period == NoPeriod:
		return "", ""
	case l.Kind != Fixed:
		return "Period", fmt.Sprintf("a %v of a limit of kind %v; use kind Fixed, or a Window", l.Period, l.Kind)
	case l.Window != 0 && l.Window != l.Period.Length():
		return "Window", fmt.Sprintf("%v beside the period %v; leave it out, or use %v", l.Window, l.Period, l.Period.Length())
	}
	if most := map[Period]int{Week: 7, Month: 31}[l.Period]; l.Anchor < 0 || l.Anchor > max(most, 1) {
		return "Anchor", fmt.Sprintf("%d is out of range for a %v; use 0 to %d", l.Anchor, l.Period, max(most, 1))
	}
	if _, err := loadZone(l.Zone); err != nil {
		return "Zone", fmt.Sprintf("%q is not a known time zone; use an IANA name such as Europe/Berlin, and import time/tzdata if the machine has no zone data", shorten.Text(l.Zone))
	}
	return "", ""
}

// zones holds the time zones that were loaded, by name. Loading one reads files, and a
// policy file may have thousands of limits. Only valid names are stored.
var zones sync.Map // of *time.Location

// loadZone returns the time zone of an IANA name; "" is UTC. The machine's own zone has no
// name: a limit must not depend on the machine.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("the zone of the machine")
	}
	if zone, loaded := zones.Load(name); loaded {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// Zoned is the windows of a Fixed limit with a Period: each begins with the period by
// the wall clock of a zone (R3).
type Zoned struct {
	period Period
	anchor int // 1 … 31 in a month, 1 … 7 in a week
	zone   *time.Location
}

// zoned returns the windows of a checked limit.
func (l *Limit) zoned() *Zoned {
	zone, _ := loadZone(l.Zone)
	return &Zoned{period: l.Period, anchor: max(l.Anchor, 1), zone: zone}
}

// Period returns the period of the windows.
func (z *Zoned) Period() Period { return z.period }

// Zone returns the time zone whose clock begins the windows.
func (z *Zoned) Zone() *time.Location { return z.zone }

// Anchor returns the first day of a Month (1 … 31) or a Week (1 = Monday … 7 = Sunday);
// for the other periods 1.
func (z *Zoned) Anchor() int { return z.anchor }

// WindowAt returns the window that contains an instant: its first instant and the first one
// behind it, in microseconds since 1970. The first can be before 1970.
func (z *Zoned) WindowAt(at int64) (start, end int64) {
	wall := z.boundary(time.UnixMicro(at).In(z.zone))
	start, end = z.edge(wall), z.edge(z.next(wall))
	// Behind a change of the clock over a boundary the wall shows the period before, and
	// a day without any instant has no window.
	for end <= at {
		wall = z.next(wall)
		start, end = end, z.edge(z.next(wall))
	}
	return start, end
}

// boundary returns the reading of the wall clock at which the period of t begins, as if it
// were UTC.
func (z *Zoned) boundary(t time.Time) time.Time {
	year, month, day := t.Date()
	switch z.period {
	case Hour:
		return time.Date(year, month, day, t.Hour(), 0, 0, 0, time.UTC)
	case Week:
		since := (int(t.Weekday()) - z.anchor + 7) % 7
		return time.Date(year, month, day-since, 0, 0, 0, 0, time.UTC)
	case Month:
		if b := z.inMonth(year, month); day >= b.Day() {
			return b
		}
		return z.inMonth(year, month-1)
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// next returns the boundary behind one.
func (z *Zoned) next(wall time.Time) time.Time {
	switch z.period {
	case Hour:
		return wall.Add(time.Hour)
	case Week:
		return wall.AddDate(0, 0, 7)
	case Month:
		return z.inMonth(wall.Year(), wall.Month()+1)
	}
	return wall.AddDate(0, 0, 1)
}

// inMonth returns the anchor's day in a month, or the last day of a shorter month.
func (z *Zoned) inMonth(year int, month time.Month) time.Time {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	return last.AddDate(0, 0, min(z.anchor, last.Day())-last.Day())
}

// edge returns the first instant at which the clock on the wall shows that reading or a
// later one. A reading that the clock skips gives the instant of the change, and one that
// it shows twice the first.
func (z *Zoned) edge(wall time.Time) int64 {
	// No offset is as long as 36 hours, so the wall shows less then.
	for t := wall.Add(-36 * time.Hour).In(z.zone); ; {
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
