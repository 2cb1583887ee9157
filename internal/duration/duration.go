// Package duration writes lengths of time in the words of a policy file, also for messages and
// tables outside of one.
package duration

import (
	"slices"
	"strconv"
	"time"
)

const day = 24 * time.Hour

// Unit is a unit of a length of time.
type Unit struct {
	Name   string // its suffix in a file
	Length time.Duration
}

// Units are the units of a length by their suffixes, the smallest first.
var Units = []Unit{
	{"us", time.Microsecond},
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", day},
}

// Format writes d in the words of the file: one number with the largest unit that
// keeps it whole, such as 250ms, 90s, 24h, 7d. Fractions of a microsecond are cut off.
func Format(d time.Duration) string {
	d -= d % time.Microsecond
	for _, unit := range slices.Backward(Units) {
		if unit.Length == day && d == day {
			continue // 24h is the usual form
		}
		if d != 0 && d%unit.Length == 0 {
			return strconv.FormatInt(int64(d/unit.Length), 10) + unit.Name
		}
	}
	return "0s"
}
