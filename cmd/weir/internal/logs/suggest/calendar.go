package suggest

import "time"

// calendar divides instants into the days of a time zone.
type calendar struct {
	zone   *time.Location
	days   []Day
	starts []int64 // of the days, ascending
}

// newCalendar returns the days of from … to, at most the newest MaxDays.
func newCalendar(zone *time.Location, from, to int64) *calendar {
	c := &calendar{zone: zone}
	year, month, day := time.UnixMicro(to).In(zone).Date()
	for d := day - MaxDays + 1; d <= day; d++ {
		start, end := time.Date(year, month, d, 0, 0, 0, 0, zone), time.Date(year, month, d+1, 0, 0, 0, 0, zone)
		if end.UnixMicro() > from {
			c.starts = append(c.starts, start.UnixMicro())
			c.days = append(c.days, Day{Date: start.Format(time.DateOnly)})
		}
	}
	return c
}

// day returns the index of an instant's day, -1 for an earlier one. Near is the index of
// an instant close by.
func (c *calendar) day(at int64, near int) int {
	for near+1 < len(c.starts) && at >= c.starts[near+1] {
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

// count counts all requests by day, and returns their numbers by hour of the day.
func (c *calendar) count(r *requests) (hours [24]int64) {
	slot, hour, day := int64(-1), 0, -1
	r.eachKey(func(_ uint32, all []request) {
		for _, r := range all {
			if r.at/quarter != slot {
				slot = r.at / quarter
				hour = time.UnixMicro(r.at).In(c.zone).Hour()
				day = c.day(r.at, day)
			}
			hours[hour]++
			if day >= 0 {
				c.days[day].Requests++
			}
		}
	})
	return hours
}
