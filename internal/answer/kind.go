package answer

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// KindWords are the words of JSON for kinds, by value: those of a policy file.
var KindWords = [...]string{weir.Rolling: "rolling", weir.Fixed: "fixed", weir.FixedFromFirst: "fixed_from_first", weir.Bucket: "bucket", weir.Concurrency: "concurrency"}

// appendKind appends the kind, and the members of a bucket, of a period and of a concurrency
// limit.
func (a *Answer) appendKind(b []byte, i int) []byte {
	s, l := &a.States[i], &a.Compiled.Limits[i]
	b = append(append(append(b, `,"kind":"`...), KindWords[l.Kind]...), '"')
	switch {
	case l.Kind == weir.Bucket:
		b = appendInt(b, `,"burst":`, s.Burst)
	case l.Kind == weir.Concurrency:
		b = appendInt(b, `,"max_hold_ms":`, Millis(s.MaxHold))
	case l.Period != nil:
		b = append(append(b, `,"period":"`...), l.Period.Period.String()...)
		b = AppendString(append(b, `","zone":`...), l.Period.Zone.String())
		if anchor := l.Period.Anchor; anchor > 1 { // missing = 1
			b = appendInt(b, `,"anchor":`, int64(anchor))
		}
	}
	return b
}

// periodWords are the words of sentences for the present window of a period, for its
// length, and for its end.
var periodWords = [...]struct{ present, each, ends string }{
	weir.Hour:  {"this hour", "in an hour", "the hour ends in "},
	weir.Day:   {"today", "in a day", "the day ends in "},
	weir.Week:  {"this week", "in a week", "the week ends in "},
	weir.Month: {"this month", "in a month", "the month ends in "},
}

// weekdays are the names of the days by their number as an anchor.
var weekdays = [...]string{1: "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

// ordinal returns "1st", "2nd", "14th".
func ordinal(day int) string {
	suffix := "th"
	if last := day % 10; 1 <= last && last <= 3 && day/10 != 1 {
		suffix = [...]string{"st", "nd", "rd"}[last-1]
	}
	return strconv.Itoa(day) + suffix
}

// appendPeriod appends "today in Europe/Berlin", or "this month from the 14th in UTC".
func appendPeriod(b []byte, z *engine.Zoned) []byte {
	b = append(b, periodWords[z.Period].present...)
	switch anchor := z.Anchor; {
	case anchor <= 1:
	case z.Period == weir.Week:
		b = append(append(b, " from "...), weekdays[anchor]...)
	default:
		b = append(append(b, " from the "...), ordinal(anchor)...)
	}
	return append(append(b, " in "...), z.Zone.String()...)
}

// appendFill appends "13 of 20 tokens left in the bucket for ip=192.0.2.1" or, without a
// whole unit, the time in which one flows in.
func (a *Answer) appendFill(b []byte, i int) []byte {
	const shared = " for all callers together"
	s := &a.States[i]
	size := strconv.FormatInt(s.Burst, 10)
	if word := a.word(i); word != "" {
		size += " " + word
	}
	if s.Remaining > 0 {
		return a.appendKeyOr(fmt.Appendf(b, "%d of %s left in the bucket", s.Remaining, size), i, shared)
	}
	if s.Remaining < 0 {
		b = append(strconv.AppendInt(b, -s.Remaining, 10), " below "...)
	}
	b = a.appendKeyOr(append(b, "empty"...), i, shared)
	return append(append(append(b, ": "...), Refill(&a.Compiled.Limits[i])...), ", capacity "+size...)
}

// Refill describes the rate of a bucket, without rounding: "one unit flows in every 100ms",
// or "3 units flow in every second" where the time for one is no whole microsecond.
func Refill(l *engine.Limit) string {
	if l.Refill.Rest == 0 {
		return "one unit flows in every " + Exactly(time.Duration(l.Refill.Micros)*time.Microsecond)
	}
	return fmt.Sprintf("%d units flow in every %s", l.Max, Span(time.Duration(l.Window)*time.Microsecond))
}

// roomAgain returns the words before the wait of a limit without room.
func (a *Answer) roomAgain(i int) string {
	s, l := &a.States[i], &a.Compiled.Limits[i]
	switch {
	case a.Decision.RetryAfter != s.NextAfter:
	case l.Kind == weir.Concurrency:
		return "the next hold ends in "
	case l.Period != nil:
		return periodWords[l.Period.Period].ends
	}
	return "room again in "
}

// appendWait appends a wait for room in limit i. Holds can end sooner, by settlement.
func (a *Answer) appendWait(b []byte, i int, wait time.Duration) []byte {
	b = append(b, Wait(wait)...)
	if a.Compiled.Limits[i].Kind == weir.Concurrency {
		b = append(b, " at the latest"...)
	}
	return b
}

// Bound returns the rule of a limit and its state: "at most 10 in 30m, and 10 are used".
func Bound(l *engine.Limit, s *weir.LimitState) string {
	switch {
	case l.Kind == weir.Bucket:
		return fmt.Sprintf("a bucket of %d, %s, and %d are missing", s.Burst, Refill(l), s.Used)
	case l.Kind == weir.Concurrency:
		return fmt.Sprintf("at most %d at once, and %d are in use", s.Max, s.Used)
	case l.Period != nil:
		return fmt.Sprintf("at most %d %s, and %d are used %s", s.Max, periodWords[l.Period.Period].each, s.Used, appendPeriod(nil, l.Period))
	}
	return fmt.Sprintf("at most %d in %s, and %d are used", s.Max, Exactly(s.Window), s.Used)
}
