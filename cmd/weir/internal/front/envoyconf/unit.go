package envoyconf

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// Unit is a unit of time. The numbers are those of the protocol.
type Unit uint8

// The units of the protocol. A month is 30 days and a year 365 days, as in the reference.
const (
	Second Unit = 1
	Minute Unit = 2
	Hour   Unit = 3
	Day    Unit = 4
	Month  Unit = 5
	Year   Unit = 6
	Week   Unit = 7
)

const day = 24 * time.Hour

// units are the words of the file and their lengths. No unit is 0.
var units = [Week + 1]struct {
	word   string
	length time.Duration
}{
	Second: {"second", time.Second},
	Minute: {"minute", time.Minute},
	Hour:   {"hour", time.Hour},
	Day:    {"day", day},
	Month:  {"month", 30 * day},
	Year:   {"year", 365 * day},
	Week:   {"week", 7 * day},
}

// unitWords lists the words in error messages.
const unitWords = "second, minute, hour, day, week, month or year"

// parseUnit returns the unit of that name, in any case, or 0.
func parseUnit(word string) Unit {
	for u := Second; u <= Week; u++ {
		if strings.EqualFold(u.String(), word) {
			return u
		}
	}
	return 0
}

// String returns the word of the file.
func (u Unit) String() string { return units[u].word }

// Length returns the length of the unit.
func (u Unit) Length() time.Duration { return units[u].length }

// Period returns the length of so many units. problem is the reason why it cannot be a
// window, or "".
func Period(u Unit, multiplier uint32) (period time.Duration, problem string) {
	most := int64(weir.MaxWindow / u.Length())
	if multiplier == 0 {
		return 0, "0 units are not a period; use 1 or more, or leave it out"
	}
	if int64(multiplier) > most {
		return 0, fmt.Sprintf("%d × %s is longer than the longest window, 400 days", multiplier, u)
	}
	return u.Length() * time.Duration(multiplier), ""
}

// Express returns a window as a number of units: the largest unit up to a week that
// divides the window. A fraction of a second is rounded up.
func Express(window time.Duration) (u Unit, multiplier uint32) {
	for _, u := range []Unit{Week, Day, Hour, Minute} {
		if window%u.Length() == 0 {
			return u, uint32(window / u.Length())
		}
	}
	return Second, uint32((window + time.Second - 1) / time.Second)
}
