package answer

// This file describes kinds of limits in words, and has their arithmetic that no engine needs.

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// KindWords are the words of JSON and of policy files for kinds, by value.
var KindWords = [...]string{
	weir.KindRolling:        "rolling",
	weir.KindFixed:          "fixed",
	weir.KindFixedFromFirst: "fixed_from_first",
	weir.KindBucket:         "bucket",
	weir.KindConcurrency:    "concurrency",
}

// writeLimit writes the members of state i.
func (a *Answer) writeLimit(j *JSON, i int) {
	s, l := &a.States[i], &a.Compiled.Limits[i]
	j.String("name", s.Name)
	j.Object("key")
	for _, dim := range l.By {
		j.Pair(a.Compiled.Dimensions[dim], a.Key.Value(dim))
	}
	j.EndObject()
	j.Int("max", s.Max)
	j.Int("used", s.Used)
	j.Int("remaining", s.Remaining)
	j.Int("window_ms", Millis(s.Window+s.MaxHold))
	if s.MinInterval > 0 {
		j.Int("min_interval_ms", Millis(s.MinInterval))
	}
	j.String("kind", KindWords[l.Kind])
	switch {
	case l.Kind == weir.KindBucket:
		j.Int("burst", s.Burst)
	case l.Kind == weir.KindConcurrency:
		j.Int("max_hold_ms", Millis(s.MaxHold))
	case l.Period != nil:
		j.String("period", l.Period.Period.String())
		j.String("zone", l.Period.Zone.String())
		if l.Period.Anchor > 1 { // missing = 1
			j.Int("anchor", int64(l.Period.Anchor))
		}
	}
	j.Int("retry_after_ms", Millis(s.RetryAfter))
	j.Int("next_ms", Millis(s.NextAfter))
	j.Int("reset_after_ms", Millis(s.ResetAfter))
	if s.Ahead > 0 {
		j.Int("ahead", s.Ahead)
		j.Int("last_ahead_ms", Millis(s.LastAhead))
	}
}

// periodWords are the words in sentences for the present window of a period, for a span of its
// length, and for the wait until it ends.
var periodWords = [...]struct{ present, each, ends string }{
	weir.Hour:  {"this hour", "in an hour", "the hour ends in "},
	weir.Day:   {"today", "in a day", "the day ends in "},
	weir.Week:  {"this week", "in a week", "the week ends in "},
	weir.Month: {"this month", "in a month", "the month ends in "},
}

// Ordinal returns "1st", "2nd", "14th".
func Ordinal(day int) string {
	suffix := "th"
	if last := day % 10; 1 <= last && last <= 3 && day/10 != 1 {
		suffix = [...]string{"st", "nd", "rd"}[last-1]
	}
	return strconv.Itoa(day) + suffix
}

// appendPeriod appends "today in Europe/Berlin", or "this month from the 14th in UTC".
func appendPeriod(b []byte, z *engine.Calendar) []byte {
	b = append(b, periodWords[z.Period].present...)
	switch anchor := z.Anchor; {
	case anchor <= 1:
	case z.Period == weir.Week:
		b = append(append(b, " from "...), time.Weekday(anchor%7).String()...) // 7 is Sunday
	default:
		b = append(append(b, " from the "...), Ordinal(anchor)...)
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
		return a.appendKey(fmt.Appendf(b,
			"%d of %s left in the bucket", s.Remaining, size), i, shared)
	}
	if s.Remaining < 0 {
		b = append(strconv.AppendInt(b, -s.Remaining, 10), " below "...)
	}
	b = a.appendKey(append(b, "empty"...), i, shared)
	return append(append(append(b, ": "...), Refill(&a.Compiled.Limits[i])...),
		", capacity "+size...)
}

// Refill describes the rate of a bucket, without rounding: "one unit flows in every 100ms",
// or "3 units flow in every second" where the time for one is no whole microsecond.
func Refill(l *engine.Limit) string {
	if l.Refill.Rest == 0 {
		return "one unit flows in every " + Exactly(time.Duration(l.Refill.Micros)*time.Microsecond)
	}
	return fmt.Sprintf("%d units flow in every %s",
		l.Max, Span(time.Duration(l.Window)*time.Microsecond))
}

// roomAgain returns the words before the wait of a limit without room.
func (a *Answer) roomAgain(i int) string {
	s, l := &a.States[i], &a.Compiled.Limits[i]
	switch {
	case a.Decision.RetryAfter != s.NextAfter:
	case l.Kind == weir.KindConcurrency:
		return "the next hold ends in "
	case l.Period != nil:
		return periodWords[l.Period.Period].ends
	}
	return "room again in "
}

// appendWait appends a wait for room in limit i. Holds can end sooner, by settlement.
func (a *Answer) appendWait(b []byte, i int, wait time.Duration) []byte {
	b = append(b, Wait(wait)...)
	if a.Compiled.Limits[i].Kind == weir.KindConcurrency {
		b = append(b, " at the latest"...)
	}
	return b
}

// Bound returns the rule of a limit and its state: "at most 10 in 30m, and 10 are used".
func Bound(l *engine.Limit, s *weir.LimitState) string {
	used := "used"
	switch {
	case l.Kind == weir.KindBucket:
		return fmt.Sprintf("a bucket of %d, %s, and %d are missing", s.Burst, Refill(l), s.Used)
	case l.Kind == weir.KindConcurrency:
		used = "in use"
	case l.Period != nil:
		used = string(appendPeriod([]byte("used "), l.Period))
	}
	return fmt.Sprintf("at most %d %s, and %d are %s", s.Max, extent(l, s), s.Used, used)
}

// extent returns the words behind the Max of a limit that is no bucket: "in 30m", "in a day"
// or "at once".
func extent(l *engine.Limit, s *weir.LimitState) string {
	switch {
	case l.Kind == weir.KindConcurrency:
		return "at once"
	case l.Period != nil:
		return periodWords[l.Period.Period].each
	}
	return "in " + Exactly(s.Window)
}

// appendNever: n is above the limit's Max or Burst, and no waiting helps.
func (a *Answer) appendNever(b []byte, i int) []byte {
	s, l := &a.States[i], &a.Compiled.Limits[i]
	if s.Max == 0 {
		b = a.appendKey(fmt.Appendf(b, "limit %q allows nothing", s.Name), i, byAll)
		return append(b, "; it opens only when its max is raised"...)
	}
	b = a.appendUnits(append(b, "asks for "...), i, a.taken(i))
	if l.Kind == weir.KindBucket {
		return fmt.Appendf(b, ", but limit %q is a bucket of %d; ask for less", s.Name, s.Burst)
	}
	return fmt.Appendf(b, ", but limit %q never allows more than %d %s; ask for less",
		s.Name, s.Max, extent(l, s))
}

// appendUsed appends "10 of 10 messages used in the last 30m for category=errors", or the
// same in the words of another kind, and the units ahead.
func (a *Answer) appendUsed(b []byte, i int) []byte {
	b = a.appendUse(b, i)
	if ahead := a.States[i].Ahead; ahead > 0 {
		b = fmt.Appendf(b, ", with %d for callers that wait", ahead)
	}
	return b
}

// appendUse is appendUsed without the units ahead.
func (a *Answer) appendUse(b []byte, i int) []byte {
	s, l := &a.States[i], &a.Compiled.Limits[i]
	switch {
	case a.Decision.Degraded:
		return a.appendShare(b, i)
	case l.Kind == weir.KindBucket:
		return a.appendFill(b, i)
	}
	b = strconv.AppendInt(b, s.Used, 10)
	if s.Max != weir.MaxUnits {
		b = strconv.AppendInt(append(b, " of "...), s.Max, 10)
	}
	if word := a.word(i); word != "" {
		b = append(append(b, ' '), word...)
	}
	switch {
	case l.Kind == weir.KindConcurrency:
		b = append(b, " in use"...)
	case l.Period != nil:
		b = appendPeriod(append(b, " used "...), l.Period)
	case l.Kind != weir.KindRolling:
		b = append(append(b, " used in this window of "...), Exactly(s.Window)...)
	default:
		b = append(append(b, " used in the last "...), Span(s.Window)...)
	}
	return a.appendKey(b, i, byAll)
}

// appendShare appends "2 left in this server's share of limit "minute" for ip=192.0.2.1". The use
// in the state of a share is none: it contains the shares of other servers.
func (a *Answer) appendShare(b []byte, i int) []byte {
	s := &a.States[i]
	left := "nothing"
	if s.Remaining > 0 {
		left = strconv.FormatInt(s.Remaining, 10)
	}
	b = fmt.Appendf(b, "%s left in this server's share of limit %q", left, s.Name)
	return a.appendKey(b, i, byAll)
}

// Quota returns the time in which the limit grants its Capacity, in microseconds, and the
// unit of this quota in a RateLimit-Policy field. The time is 0 for holds, and for months,
// because they differ. The unit is "" if requests are counted, as they are by default.
func Quota(l *engine.Limit) (window int64, unit string) {
	switch {
	case l.Kind == weir.KindBucket:
		return fillTime(l).Microseconds(), ""
	case l.Kind == weir.KindConcurrency:
		return 0, "concurrent-requests"
	case l.Period != nil && l.Period.Period == weir.Month:
		return 0, ""
	}
	return l.Window, ""
}

// fillTime returns the time in which the empty bucket of a limit fills, rounded up to a
// microsecond.
func fillTime(l *engine.Limit) time.Duration {
	return time.Duration((*window.Refill)(&l.Refill).Within(l.Capacity)) * time.Microsecond
}

// IsBucket reports whether limits of that kind are buckets, with a Burst.
func IsBucket(kind weir.Kind) bool { return kind == weir.KindBucket }

// Holds reports whether limits of that kind hold units until a reservation is settled (R17).
func Holds(kind weir.Kind) bool { return kind == weir.KindConcurrency }

// MaxBurst returns the largest Burst of a bucket at the rate of the limit. Up to it the refill is
// exact, and the bucket fills within 400 days (R16). Max and Window must be valid and above 0.
func MaxBurst(l *weir.Limit) int64 {
	rate := window.NewRefill(l.Max, l.Window.Microseconds())
	return rate.MaxBurst()
}

// Worst returns the most units that the limit grants in the length of its window, or that
// are held at any instant.
func Worst(l *engine.Limit) int64 {
	switch l.Kind {
	case weir.KindFixed, weir.KindFixedFromFirst:
		return 2 * l.Max // across the edge of two windows
	case weir.KindBucket:
		return l.Capacity + l.Max
	}
	return l.Max
}

// WorstCase returns the worst case of the limit in words. length is its Window as text.
func WorstCase(l *engine.Limit, length string) string {
	switch {
	case l.Kind == weir.KindBucket:
		return fmt.Sprintf("at most %d at once, and in any %s at most %d",
			l.Capacity, Span(time.Duration(l.Window)*time.Microsecond), Worst(l))
	case l.Kind == weir.KindConcurrency:
		return fmt.Sprintf("at most %d held at any instant; "+
			"a hold ends with its settlement, at the latest after %s; "+
			"those of plain attempts, such as Envoy's, only after %s", l.Max, length, length)
	case l.Period != nil:
		return fmt.Sprintf("at most %d in each %v, and up to %d in its length across an edge",
			l.Max, l.Period.Period, Worst(l))
	case l.Kind != weir.KindRolling:
		return fmt.Sprintf("at most %d in any %s, across the edge of two windows", Worst(l), length)
	}
	return fmt.Sprintf("at most %d in any %s", l.Max, length)
}

// Longest returns the longest time for which a limit that was used up can deny an attempt,
// and the words for that time.
func Longest(l *engine.Limit) (time.Duration, string) {
	switch l.Kind {
	case weir.KindBucket:
		return fillTime(l), "the time in which it fills"
	case weir.KindConcurrency:
		return time.Duration(l.Window) * time.Microsecond, "the time of a hold"
	}
	return time.Duration(l.Window) * time.Microsecond, "its window"
}

// Uncounted returns the reason why the units of a span cannot be counted (R11): "is a bucket,
// which stores no instants to count". It is "" for a rolling limit.
func Uncounted(l *engine.Limit) string {
	switch l.Kind {
	case weir.KindRolling:
		return ""
	case weir.KindBucket:
		return "is a bucket, which stores no instants to count"
	case weir.KindConcurrency:
		return "counts units in use at once, not those of a span"
	}
	return "has fixed windows, which store no instants to count"
}

// InFixedWindows gives a limit fixed windows: of its length since 1970, or months of the calendar.
func InFixedWindows(l *weir.Limit, months bool) {
	if l.Kind = weir.KindFixed; months {
		l.Window, l.Period = 0, weir.Month
	}
}

// Window formats the window of a limit for a table: "30m", "10 per 1s" for a bucket, "at once" for
// a concurrency limit, or "day in Europe/Berlin".
func Window(l *engine.Limit, s *weir.LimitState) string {
	switch {
	case l.Kind == weir.KindBucket:
		return fmt.Sprintf("%d per %s", s.Max, Exactly(s.Window))
	case l.Kind == weir.KindConcurrency:
		return "at once"
	case l.Period != nil:
		return l.Period.Period.String() + " in " + l.Period.Zone.String()
	}
	return Exactly(s.Window)
}
