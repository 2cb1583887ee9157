package suggest

import "time"

// calendar divides instants into the days of a time zone.
type calendar struct {
	zone   *time.Location
	starts []int64 // days, ascending; the last is the end of the last day
	names  []string
}

// newCalendar returns the days of from … to, at most the newest MaxDays.
func newCalendar(zone *time.Location, from, to int64) *calendar {
	c := &calendar{zone: zone}
	last := time.UnixMicro(to).In(zone)
	for back := MaxDays - 1; back >= -1; back-- {
		start := time.Date(last.Year(), last.Month(), last.Day()-back, 0, 0, 0, 0, zone)
		end := time.Date(last.Year(), last.Month(), last.Day()-back+1, 0, 0, 0, 0, zone)
		if end.UnixMicro() <= from {
			continue
		}
		c.starts = append(c.starts, start.UnixMicro())
		if back >= 0 {
			c.names = append(c.names, start.Format(time.DateOnly))
		}
	}
	return c
}

// day returns the index of an instant's day, -1 for an earlier one. Near is the index of
// an instant close by.
func (c *calendar) day(at int64, near int) int {
	for near+1 < len(c.names) && at >= c.starts[near+1] {
		near++
	}
	for near >= 0 && at < c.starts[near] {
		near--
	}
	return near
}

// quarter is the length in which the offset of no time zone from UTC changes but at the
// edges.
const quarter = 15 * 60 * second

// count counts all requests by hour of the day and by day.
func (c *calendar) count(s *events) (hours [24]int64, days []Day) {
	days = []Day{}
	byDay := make([]int64, len(c.names))
	slot, hour, day := int64(-1), 0, -1
	s.each(func(e event) {
		if e.at/quarter != slot {
			slot = e.at / quarter
			hour = time.UnixMicro(e.at).In(c.zone).Hour()
			day = c.day(e.at, day)
		}
		hours[hour]++
		if day >= 0 {
			byDay[day]++
		}
	})
	for i, n := range byDay {
		days = append(days, Day{c.names[i], n})
	}
	return hours, days
}
