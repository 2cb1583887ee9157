package policy

import (
	"cmp"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// limitForm holds the words of a limit that select its kind.
type limitForm struct {
	period   weir.Period // of a window named hour, day, week or month
	fixed    bool
	firstHit bool // with fixed
	bucket   bool // kind: bucket, or a burst
	atOnce   bool // at once, kind: concurrency, or a max_hold
	rolling  bool // kind: rolling
	hasBurst bool
	hold     time.Duration // with hasHold
	hasHold  bool
	anchor   weir.Period // Month or Week: the period that a from needs; NoPeriod without one
}

// periodNamed returns the period of a window's name, NoPeriod if it has none.
func periodNamed(word string) weir.Period {
	for p := weir.Hour; p <= weir.Month; p++ {
		if p.String() == word {
			return p
		}
	}
	return weir.NoPeriod
}

// kind returns the kind that the words of the limit select.
func (d *limitBuilder) kind() weir.Kind {
	switch {
	case d.form.atOnce:
		return weir.Concurrency
	case d.form.firstHit:
		return weir.FixedFromFirst
	case d.form.fixed:
		return weir.Fixed
	case d.form.bucket:
		return weir.Bucket
	}
	return weir.Rolling
}

// setForm selects the kind as the words of a line would.
func (d *limitBuilder) setForm(k weir.Kind) {
	switch k {
	case weir.Rolling:
		d.form.rolling = true
	case weir.Fixed:
		d.form.fixed = true
	case weir.FixedFromFirst:
		d.form.fixed, d.form.firstHit = true, true
	case weir.Bucket:
		d.form.bucket = true
	case weir.Concurrency:
		d.form.atOnce = true
	}
}

func (d *limitBuilder) setKind(at, i int) {
	d.setForm(weir.Kind(i))
	d.hasKind, d.at.kind = true, at
}

// complete checks the words of a limit together and sets the fields that follow from
// several of them.
func (d *limitBuilder) complete() *fault {
	for _, part := range []func() *fault{d.completeAtOnce, d.completeBucket, d.completeFixed} {
		if f := part(); f != nil {
			return f
		}
	}
	d.limit.Kind = d.kind()
	if d.unlimited {
		d.completeUnlimited()
	}
	return nil
}

func (d *limitBuilder) completeAtOnce() *fault {
	const example = "write 20 at once per user, for at most 30s"
	form := &d.form
	switch {
	case form.hasHold && form.rolling:
		return faultf(d.at.hold, "write kind: concurrency", "a rolling limit holds nothing")
	case form.hasHold && !form.atOnce && (d.hasWindow || form.fixed || form.bucket):
		return faultf(d.at.hold, "remove it, or "+example, "the time of a hold belongs to a concurrency limit")
	case !form.hasHold && !form.atOnce:
		return nil
	case form.fixed:
		return faultf(d.at.kind, "remove fixed: "+example, "a concurrency limit has no windows")
	case form.hasBurst:
		return faultf(d.at.burst, "remove burst, or write two limits below limits:, each with a name", "a concurrency limit has no burst")
	case d.hasWindow:
		return atOncePerWindow(d.at.window, formatWindow(d.limit.Window))
	case !form.hasHold:
		return faultf(d.at.kind, example+": a unit is free again after this time, even if its holder never returns it", "the longest time of a hold is missing")
	case outOfRange(form.hold):
		return faultOfLength(d.at.hold, "hold", form.hold)
	}
	form.atOnce, d.limit.MaxHold = true, form.hold
	return d.noCalendar("a concurrency limit")
}

// atOncePerWindow returns the fault of a concurrency limit with a window.
func atOncePerWindow(at int, window string) *fault {
	return faultf(at, "write two limits below limits:, such as running: 20 at once per user, for at most 30s and started: 100 per "+window+" per user",
		"at once and per %s in one limit: one bounds how much runs at the same time, the other a rate", window)
}

func (d *limitBuilder) completeBucket() *fault {
	switch form := &d.form; {
	case !form.bucket:
		return nil
	case form.rolling:
		return faultf(d.at.burst, "write kind: bucket, or remove burst", "a rolling limit has no burst")
	case form.fixed:
		return faultf(d.at.burst, "remove fixed or burst", "burst and fixed in one limit: a bucket refills at every instant, so it has no windows")
	case d.unlimited:
		window := formatWindow(cmp.Or(d.limit.Window, time.Second))
		return faultf(d.at.max, "write the highest rate you need, such as 1_000_000 per "+window+", burst 1_000_000", "a bucket cannot be unlimited: it refills at a rate")
	case d.limit.Max == 0:
		return faultf(d.at.max, "use 1 or more, or remove burst to deny everything", "a bucket that never refills")
	case !form.hasBurst:
		d.limit.Burst = d.limit.Max
	}
	return d.noCalendar("a bucket")
}

// noCalendar rejects the words for windows of the calendar.
func (d *limitBuilder) noCalendar(limit string) *fault {
	switch {
	case d.limit.Zone != "":
		return faultf(d.at.zone, "remove the time zone", "%s has no time zone", limit)
	case d.form.anchor != weir.NoPeriod:
		return faultf(d.at.from, "remove from", "%s does not begin on a day", limit)
	case d.form.period == weir.Month:
		return faultf(d.at.window, "use a length such as 30d", "months vary in length")
	}
	return nil
}

func (d *limitBuilder) completeFixed() *fault {
	form := &d.form
	switch {
	case form.atOnce || form.bucket:
		return nil
	case form.firstHit && form.period == weir.Month:
		return faultf(d.at.window, "write per 30d, or fixed alone for months of the calendar", "windows from the first hit have one length, and months vary")
	case form.firstHit:
		return d.noCalendar("a window from the first hit")
	case form.fixed:
		return d.completePeriod()
	case d.limit.Zone != "":
		return faultf(d.at.zone, "write fixed in "+d.limit.Zone, "a time zone without fixed: rolling windows begin at every instant")
	case form.anchor != weir.NoPeriod:
		return faultf(d.at.from, "write fixed, from "+formatAnchor(form.anchor, d.limit.Anchor), "a beginning without fixed: rolling windows begin at every instant")
	case form.period == weir.Month:
		return faultf(d.at.window, "write per month, fixed for months of the calendar, or a length such as 30d", "a rolling window has one length, and months vary")
	}
	return nil
}

// completePeriod sets the Period of windows that begin with a week, a month, or the wall
// clock of a zone. Other fixed windows begin at multiples of their length, in UTC.
func (d *limitBuilder) completePeriod() *fault {
	period, anchor := d.form.period, d.form.anchor
	zoned := d.limit.Zone != ""
	name := periodNamed(formatWindow(d.limit.Window))
	switch {
	case zoned && period == weir.NoPeriod && name != weir.NoPeriod:
		return faultf(d.at.window, "write per "+name.String(), "%s is a length, and only an hour, day, week or month begins with the clock of a time zone", FormatDuration(d.limit.Window))
	case zoned && period == weir.NoPeriod:
		return faultf(d.at.zone, "write per hour, per day, per week or per month, or remove the time zone", "only hours, days, weeks and months begin with the clock of a time zone")
	case anchor == weir.NoPeriod || anchor == period:
	case period == weir.Week:
		return faultf(d.at.from, "write a day such as from sunday, or per month", "a week has no %s", answer.Ordinal(d.limit.Anchor))
	case period == weir.Month:
		return faultf(d.at.from, "write a day from the 1st to the 31st, or per week", "months do not begin on a %s", weekdays[d.limit.Anchor-1])
	default:
		return faultf(d.at.from, "remove from, or write per week or per month", "only weeks and months begin on another day")
	}
	if zoned || period == weir.Week || period == weir.Month {
		d.limit.Period = period
	}
	return nil
}

// inherit gives a change of a limit the kind of that limit, if it selects none.
func (d *limitBuilder) inherit(base *weir.Limit) *fault {
	switch {
	case base.Kind == weir.Concurrency && d.hasWindow && !d.form.atOnce && d.kind() == weir.Rolling && !d.hasKind:
		return faultf(d.at.window, "write 20 at once, for at most "+FormatDuration(base.MaxHold), "the limit counts at once, not per window")
	case d.hasKind || d.kind() != weir.Rolling:
		return nil
	}
	d.setForm(base.Kind)
	if d.unlimited && !d.hasWindow {
		d.limit.Window, d.form.hold, d.form.hasHold = base.Window, base.MaxHold, base.Kind == weir.Concurrency
	}
	return nil
}

// kindSentence returns the kind in the words of a limit line, "" for a rolling limit.
func kindSentence(l *weir.Limit) string {
	switch l.Kind {
	case weir.Fixed:
		return ", " + wordFixed + calendarSentence(l)
	case weir.FixedFromFirst:
		return ", " + wordFixed + " " + wordFrom + " " + strings.Join(theFirstHit, " ")
	case weir.Bucket:
		return ", " + wordBurst + " " + formatNumber(l.Capacity())
	case weir.Concurrency:
		return ", " + strings.Join(forAtMost, " ") + " " + FormatDuration(l.MaxHold)
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
	case l.Kind == weir.Concurrency:
		return " " + strings.Join(atOnce, " ")
	case l.Max == weir.MaxUnits && l.Period == weir.NoPeriod && l.Window == shortestWindow(*l):
		return ""
	case l.Period != weir.NoPeriod:
		return " " + wordPer + " " + l.Period.String()
	case l.Kind == weir.Fixed && l.Window == weir.Week.Length():
		return " " + wordPer + " " + FormatDuration(l.Window) // per week begins on Mondays
	}
	return " " + wordPer + " " + formatWindow(l.Window)
}
