package envoyconf

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
)

// Unit is a unit of time of the protocol. No unit is 0.
type Unit = pb.RateLimitResponse_RateLimit_Unit

// The units of the protocol.
const (
	Second = pb.RateLimitResponse_RateLimit_SECOND
	Minute = pb.RateLimitResponse_RateLimit_MINUTE
	Hour   = pb.RateLimitResponse_RateLimit_HOUR
	Day    = pb.RateLimitResponse_RateLimit_DAY
	Week   = pb.RateLimitResponse_RateLimit_WEEK
	Month  = pb.RateLimitResponse_RateLimit_MONTH
	Year   = pb.RateLimitResponse_RateLimit_YEAR
)

const day = 24 * time.Hour

// lengths are those of the units. A month is 30 days and a year 365 days, as in the reference.
var lengths = [...]time.Duration{Second: time.Second, Minute: time.Minute, Hour: time.Hour,
	Day: day, Week: 7 * day, Month: 30 * day, Year: 365 * day}

// unitWords lists the words of the file in error messages.
const unitWords = "second, minute, hour, day, week, month or year"

// parseUnit returns the unit of that name, in any case, or 0.
func parseUnit(word string) Unit {
	return Unit(pb.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(word)])
}

// Length returns the length of a unit.
func Length(u Unit) time.Duration { return lengths[u] }

// Period returns the length of so many units. problem is the reason why it cannot be a
// window, or "".
func Period(u Unit, multiplier uint32) (period time.Duration, problem string) {
	most := int64(weir.MaxWindow / Length(u))
	if multiplier == 0 {
		return 0, "0 units are not a period; use 1 or more, or leave it out"
	}
	if int64(multiplier) > most {
		return 0, fmt.Sprintf("%d × %s is longer than the longest window, 400 days", multiplier,
			strings.ToLower(u.String()))
	}
	return Length(u) * time.Duration(multiplier), ""
}

// Express returns a window as a number of units: the largest unit up to a week that
// divides the window. A fraction of a second is rounded up.
func Express(window time.Duration) (u Unit, multiplier uint32) {
	for _, u := range []Unit{Week, Day, Hour, Minute} {
		if window%Length(u) == 0 {
			return u, uint32(window / Length(u))
		}
	}
	return Second, uint32((window + time.Second - 1) / time.Second)
}
