package weir

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Per returns a limit of n units, 0 … MaxUnits, in any window of that length. It counts for
// each combination of values of the dimensions by; without any, all callers share it. New
// checks the numbers. [Limit.Named] has the rules for its name.
func Per(n int64, window time.Duration, by ...string) Limit {
	return Limit{Max: n, Window: window, By: by}
}

// PerSecond is [Per] for any second.
func PerSecond(n int64, by ...string) Limit { return Per(n, time.Second, by...) }

// PerMinute is [Per] for any 60 seconds.
func PerMinute(n int64, by ...string) Limit { return Per(n, time.Minute, by...) }

// PerHour is [Per] for any 60 minutes.
func PerHour(n int64, by ...string) Limit { return Per(n, time.Hour, by...) }

// PerDay is [Per] for any 24 hours. The window rolls, so midnight returns no units. [Calendar]
// has the days of a time zone.
func PerDay(n int64, by ...string) Limit { return Per(n, day, by...) }

const day = 24 * time.Hour

// Bucket returns a token bucket of burst units, 1 … MaxUnits, that refills at the rate of n units
// per duration (R16). A full one lets burst units pass at the same instant. It counts by the
// dimensions as [Per].
func Bucket(n int64, per time.Duration, burst int64, by ...string) Limit {
	return Limit{Kind: KindBucket, Max: n, Window: per, Burst: burst, By: by}
}

// AtOnce returns a limit of n units that are held at the same instant, such as calls that run. A
// granted unit is held until its [Reservation] is settled, and for at most maxHold, 1ms … 400 days
// (R17). It counts by the dimensions as [Per].
func AtOnce(n int64, maxHold time.Duration, by ...string) Limit {
	return Limit{Kind: KindConcurrency, Max: n, MaxHold: maxHold, By: by}
}

// Calendar returns a limit of n units in each hour, day, week or month of a time zone, such as
// Europe/Berlin; "" is UTC (R3). The period's length across the edge of two may hold 2 * n.
// Limit.Anchor selects another first day of weeks and months. It counts by the dimensions as
// [Per].
func Calendar(n int64, period Period, zone string, by ...string) Limit {
	return Limit{Kind: KindFixed, Max: n, Period: period, Zone: zone, By: by}
}

// Named returns the limit with a name, [a-z0-9][a-z0-9._-]{0,63}. Histories belong to it (R12).
//
// The sole limit of a policy needs none: it is called "limit". One of several without a name is
// called by its window and its dimensions, sorted, such as minute-teacher-tenant, 30m-teacher,
// at-once-user or, without dimensions, day. So another
// window, another dimension or the second limit of a policy renames such a limit, and its
// histories begin empty. Equal names, and those above 64 bytes, are an error of [New].
func (l Limit) Named(name string) Limit {
	l.Name = name
	return l
}

// Apart returns the limit with a minimum interval between two grants, in whole microseconds,
// 0 … Window, or MaxHold (R5).
func (l Limit) Apart(interval time.Duration) Limit {
	l.MinInterval = interval
	return l
}

// Blocking returns the limit with a block: a denied attempt, by a limit that has one, denies its
// key for that time, whole microseconds, 1ms … 400 days (R20). [Limiter.Reset] ends a block.
func (l Limit) Blocking(d time.Duration) Limit {
	l.Block = d
	return l
}

// soleLimit is the name of a policy's only limit if it has none, as in policy files.
const soleLimit = "limit"

// named returns the policy with its dimensions and a name for each limit. The caller's slices
// are not changed.
func (p Policy) named() Policy {
	p.Limits = slices.Clone(p.Limits)
	if len(p.Dimensions) == 0 {
		p.Dimensions = p.counted()
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		switch {
		case l.Name != "":
		case len(p.Limits) == 1:
			l.Name = soleLimit
		default:
			l.Name = l.defaultName()
		}
	}
	return p
}

// counted returns the dimensions that the limits count by, in order of first appearance.
func (p *Policy) counted() (dimensions []string) {
	for _, l := range p.Limits {
		for _, dim := range l.By {
			if !slices.Contains(dimensions, dim) {
				dimensions = append(dimensions, dim)
			}
		}
	}
	return dimensions
}

// defaultName returns the name of an unnamed limit among several: the window and the dimensions,
// sorted, because the order of neither By nor Dimensions may move histories (R12).
func (l *Limit) defaultName() string {
	words := append([]string{l.windowWord()}, slices.Sorted(slices.Values(l.By))...)
	return strings.Join(words, "-")
}

// windowWord returns the window of a limit as one word of a name.
func (l *Limit) windowWord() string {
	switch {
	case l.Kind == KindConcurrency:
		return "at-once"
	case l.Period != NoPeriod:
		return l.Period.String()
	}
	switch l.Window {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case day:
		return "day"
	}
	units := []struct {
		length time.Duration
		word   string
	}{
		{day, "d"},
		{time.Hour, "h"},
		{time.Minute, "m"},
		{time.Second, "s"},
		{time.Millisecond, "ms"},
	}
	for _, unit := range units {
		if l.Window%unit.length == 0 {
			return fmt.Sprintf("%d%s", l.Window/unit.length, unit.word)
		}
	}
	return fmt.Sprintf("%dus", l.Window.Microseconds())
}
