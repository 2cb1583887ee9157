package policy

import (
	"cmp"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/duration"
)

// periods are the periods of the windows with those names.
var periods = map[string]weir.Period{
	"hour":  weir.Hour,
	"day":   weir.Day,
	"week":  weir.Week,
	"month": weir.Month,
}

// kind returns the kind that the words of the limit select.
func (d *limitBuilder) kind() weir.Kind {
	for k := weir.KindConcurrency; k > weir.KindRolling; k-- {
		if d.kinds[k] {
			return k
		}
	}
	return weir.KindRolling
}

// selectKind selects a kind as the words of a line would.
func (d *limitBuilder) selectKind(k weir.Kind) {
	d.kinds[k] = true
	if k == weir.KindFixedFromFirst {
		d.kinds[weir.KindFixed] = true
	}
}

func (d *limitBuilder) setKind(at, i int) {
	d.selectKind(weir.Kind(i))
	d.at.kind = at
}

// complete checks the words of a limit together and sets the fields that follow from
// several of them.
func (d *limitBuilder) complete() {
	switch kind := d.kind(); {
	case kind == weir.KindConcurrency || d.hasHold:
		d.completeAtOnce()
	case kind == weir.KindBucket:
		d.completeBucket()
	case kind == weir.KindFixedFromFirst && d.period == weir.Month:
		fail(d.at.window, "write per 30d, or fixed alone for months of the calendar",
			"windows from the first hit have one length, and months vary")
	case kind == weir.KindFixedFromFirst:
		d.noCalendar("a window from the first hit")
	case kind == weir.KindFixed:
		d.completePeriod()
	default:
		d.checkRolling()
	}
	d.limit.Kind = d.kind()
	if d.unlimited {
		d.completeUnlimited()
	}
}

func (d *limitBuilder) completeAtOnce() {
	const example = "write 20 at once per user, for at most 30s"
	switch {
	case d.hasHold && d.kinds[weir.KindRolling]:
		fail(d.at.hold, "write kind: concurrency", "a rolling limit holds nothing")
	case d.hasHold && d.selectsOther():
		fail(d.at.hold, "remove it, or "+example,
			"the time of a hold belongs to a concurrency limit")
	case d.kinds[weir.KindFixed]:
		fail(d.at.kind, "remove fixed: "+example, "a concurrency limit has no windows")
	case d.limit.Burst > 0:
		fail(d.at.burst, "remove burst, or write two limits below limits:, each with a name",
			"a concurrency limit has no burst")
	case d.hasWindow:
		failAtOncePerWindow(d.at.window, formatWindow(d.limit.Window))
	case !d.hasHold:
		fail(d.at.kind, example+": a unit is free again after this time, "+
			"even if its holder never returns it", "the longest time of a hold is missing")
	}
	checkLength(d.at.hold, "hold", d.limit.MaxHold)
	d.kinds[weir.KindConcurrency] = true
	d.noCalendar("a concurrency limit")
}

// selectsOther reports whether the words select a kind, and not KindConcurrency.
func (d *limitBuilder) selectsOther() bool {
	if d.kinds[weir.KindConcurrency] {
		return false
	}
	return d.hasWindow || d.kinds[weir.KindFixed] || d.kinds[weir.KindBucket]
}

// failAtOncePerWindow fails because a concurrency limit has a window.
func failAtOncePerWindow(at int, window string) {
	fail(at, "write two limits below limits:, such as running: 20 at once per user, "+
		"for at most 30s and started: 100 per "+window+" per user",
		"at once and per %s in one limit: one bounds how much runs at the same time, the other a rate",
		window)
}

func (d *limitBuilder) completeBucket() {
	switch {
	case d.kinds[weir.KindRolling]:
		fail(d.at.burst, "write kind: bucket, or remove burst", "a rolling limit has no burst")
	case d.kinds[weir.KindFixed]:
		fail(d.at.burst, "remove fixed or burst",
			"burst and fixed in one limit: a bucket refills at every instant, so it has no windows")
	case d.unlimited:
		window := formatWindow(cmp.Or(d.limit.Window, time.Second))
		fail(d.at.max,
			"write the highest rate you need, such as 1_000_000 per "+window+", burst 1_000_000",
			"a bucket cannot be unlimited: it refills at a rate")
	case d.limit.Max == 0:
		fail(d.at.max, "use 1 or more, or remove burst to deny everything",
			"a bucket that never refills")
	case d.limit.Burst == 0:
		d.limit.Burst = d.limit.Max
	}
	d.noCalendar("a bucket")
}

// noCalendar rejects the words for windows of the calendar.
func (d *limitBuilder) noCalendar(limit string) {
	switch {
	case d.limit.Zone != "":
		fail(d.at.zone, "remove the time zone", "%s has no time zone", limit)
	case d.anchor != weir.NoPeriod:
		fail(d.at.from, "remove from", "%s does not begin on a day", limit)
	case d.period == weir.Month:
		fail(d.at.window, "use a length such as 30d", "months vary in length")
	}
}

// checkRolling rejects the words for fixed windows.
func (d *limitBuilder) checkRolling() {
	switch {
	case d.limit.Zone != "":
		fail(d.at.zone, "write fixed in "+d.limit.Zone,
			"a time zone without fixed: rolling windows begin at every instant")
	case d.anchor != weir.NoPeriod:
		fail(d.at.from, "write fixed, from "+formatAnchor(d.anchor, d.limit.Anchor),
			"a beginning without fixed: rolling windows begin at every instant")
	case d.period == weir.Month:
		fail(d.at.window, "write per month, fixed for months of the calendar, "+
			"or a length such as 30d", "a rolling window has one length, and months vary")
	}
}

// completePeriod sets the Period of windows that begin with a week, a month, or the wall
// clock of a zone. Other fixed windows begin at multiples of their length, in UTC.
func (d *limitBuilder) completePeriod() {
	period, anchor := d.period, d.anchor
	zoned := d.limit.Zone != ""
	name := periods[formatWindow(d.limit.Window)]
	switch {
	case zoned && period == weir.NoPeriod && name != weir.NoPeriod:
		fail(d.at.window, "write per "+name.String(),
			"%s is a length, and only an hour, day, week or month begins with the clock of a time zone",
			duration.Format(d.limit.Window))
	case zoned && period == weir.NoPeriod:
		fail(d.at.zone, "write per hour, per day, per week or per month, or remove the time zone",
			"only hours, days, weeks and months begin with the clock of a time zone")
	case anchor == weir.NoPeriod || anchor == period:
	case period == weir.Week:
		fail(d.at.from, "write a day such as from sunday, or per month",
			"a week has no %s", answer.Ordinal(d.limit.Anchor))
	case period == weir.Month:
		fail(d.at.from, "write a day from the 1st to the 31st, or per week",
			"months do not begin on a %s", weekdays[d.limit.Anchor-1])
	default:
		fail(d.at.from, "remove from, or write per week or per month",
			"only weeks and months begin on another day")
	}
	if zoned || period == weir.Week || period == weir.Month {
		d.limit.Period = period
	}
}

// inherit gives a change of a limit the kind of that limit, if it selects none.
func (d *limitBuilder) inherit(base *weir.Limit) {
	switch {
	case d.kinds != [weir.KindConcurrency + 1]bool{}: // words select one
		return
	case base.Kind == weir.KindConcurrency && d.hasWindow:
		fail(d.at.window, "write 20 at once, for at most "+duration.Format(base.MaxHold),
			"the limit counts at once, not per window")
	}
	d.selectKind(base.Kind)
	if d.unlimited && !d.hasWindow {
		d.limit.Window, d.limit.MaxHold = base.Window, base.MaxHold
		d.hasHold = base.Kind == weir.KindConcurrency
	}
}

// kindSentence returns the kind in the words of a limit line, "" for a rolling limit.
func kindSentence(l *weir.Limit) string {
	switch l.Kind {
	case weir.KindFixed:
		return ", " + wordFixed + calendarSentence(l)
	case weir.KindFixedFromFirst:
		return ", " + wordFixed + " " + wordFrom + " " + strings.Join(theFirstHit, " ")
	case weir.KindBucket:
		return ", " + wordBurst + " " + formatNumber(cmp.Or(l.Burst, l.Max))
	case weir.KindConcurrency:
		return ", " + strings.Join(forAtMost, " ") + " " + duration.Format(l.MaxHold)
	}
	return ""
}

// calendarSentence returns the day and the time zone of fixed windows.
func calendarSentence(l *weir.Limit) string {
	zone := ""
	if l.Zone != "" {
		zone = " " + wordIn + " " + l.Zone
	}
	if l.Anchor == 0 || l.Period != weir.Week && l.Period != weir.Month {
		return zone
	}
	if zone != "" {
		zone = "," + zone
	}
	return ", " + wordFrom + " " + formatAnchor(l.Period, l.Anchor) + zone
}

// windowSentence returns the window in the words of a limit line.
func windowSentence(l *weir.Limit) string {
	switch {
	case l.Kind == weir.KindConcurrency:
		return " " + strings.Join(atOnce, " ")
	case l.Max == weir.MaxUnits && l.Period == weir.NoPeriod && l.Window == shortestWindow(*l):
		return ""
	case l.Period != weir.NoPeriod:
		return " " + wordPer + " " + l.Period.String()
	case l.Kind == weir.KindFixed && l.Window == weir.Week.Length():
		return " " + wordPer + " " + duration.Format(l.Window) // per week begins on Mondays
	}
	return " " + wordPer + " " + formatWindow(l.Window)
}
