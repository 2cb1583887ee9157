package envoy

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
)

// Windows is the kind of the windows of a configuration's rules.
type Windows uint8

const (
	// Rolling windows: "per minute" bounds every minute.
	Rolling Windows = iota

	// Fixed windows, as in the reference: each begins at a whole multiple of its length
	// since 1970 UTC. Up to twice the limit can pass within a minute, across the edge of
	// two windows.
	Fixed

	// CalendarMonth is Fixed, with calendar months.
	CalendarMonth
)

// String returns the word of the command line.
func (w Windows) String() string { return [...]string{"rolling", "fixed", "calendar-month"}[w] }

// span returns the window of the histories. A fixed window has a history of its own, with
// its number in the key. This history lasts longer than the window, so that differences
// between clocks do not end it early.
func (w Windows) span(period time.Duration) time.Duration {
	if w == Rolling {
		return period
	}
	return min(2*period, weir.MaxWindow)
}

// at returns the number of the fixed window at now, and its end.
func (w Windows) at(now time.Time, unit envoyconf.Unit, period time.Duration) (number int64, ends time.Time) {
	if w == CalendarMonth && unit == envoyconf.Month {
		now = now.UTC()
		months := int64(period / envoyconf.Month.Length())
		number = (int64(now.Year()-1970)*12 + int64(now.Month()-1)) / months
		return number, time.Date(1970, time.Month(1+(number+1)*months), 1, 0, 0, 0, 0, time.UTC)
	}
	length := period.Microseconds()
	number = now.UnixMicro() / length
	return number, time.UnixMicro((number + 1) * length)
}
