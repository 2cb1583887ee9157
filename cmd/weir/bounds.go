package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// fixedLimit is a limit with fixed windows and its worst case.
type fixedLimit struct {
	Policy   string        `json:"policy"`
	Limit    string        `json:"limit"`
	Sentence string        `json:"sentence"`
	Max      int64         `json:"max"`
	Worst    int64         `json:"worst"`          // units in the length of a window, across the edge of two
	WindowMS int64         `json:"window_ms"`      // rounded up
	Next     []windowStart `json:"next,omitempty"` // the next two windows of hours, days, weeks or months
}

// windowStart is the first instant of a window.
type windowStart struct {
	Local string `json:"local"` // in the limit's time zone, RFC 3339
	UTC   string `json:"utc"`
}

// bucketLimit is a token bucket and its worst case.
type bucketLimit struct {
	Policy   string `json:"policy"`
	Limit    string `json:"limit"`
	Sentence string `json:"sentence"`
	Max      int64  `json:"max"`
	Burst    int64  `json:"burst"`
	Worst    int64  `json:"worst"`     // units in any window
	WindowMS int64  `json:"window_ms"` // rounded up
}

// concurrencyLimit is a limit of the units that are held.
type concurrencyLimit struct {
	Policy   string `json:"policy"`
	Limit    string `json:"limit"`
	Sentence string `json:"sentence"`
	Max      int64  `json:"max"`
	MaxHold  int64  `json:"max_hold_ms"` // the longest time of a hold, rounded up
}

// addKind adds limit i to the list of its kind. Rolling limits and those without a bound
// have none.
func (v *validFile) addKind(p *policy.Definition, i int, next []windowStart) {
	l := &p.Limits[i]
	switch {
	case l.Kind == weir.Rolling:
	case l.Kind == weir.Bucket:
		v.Buckets = append(v.Buckets, bucketLimit{p.Name, l.Name, p.Sentence(i), l.Max, l.Capacity(), worstOf(l), answer.Millis(l.Window)})
	case l.Max == weir.MaxUnits:
	case l.Kind == weir.Concurrency:
		v.Concurrency = append(v.Concurrency, concurrencyLimit{p.Name, l.Name, p.Sentence(i), l.Max, answer.Millis(l.MaxHold)})
	default:
		v.Fixed = append(v.Fixed, fixedLimit{p.Name, l.Name, p.Sentence(i), l.Max, worstOf(l), answer.Millis(l.Window), next})
	}
}

// nextWindows returns the beginnings of the two windows after the current one, of a limit
// with windows by the clock of a zone.
func nextWindows(l *engine.Limit, name string, now time.Time) []windowStart {
	if l.Period == nil {
		return nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil // not of a limit with a plan
	}
	var starts []windowStart
	for at := now.UnixMicro(); len(starts) < 2; {
		_, at = l.Period.WindowAt(at)
		start := time.UnixMicro(at)
		starts = append(starts, windowStart{start.In(zone).Format(time.RFC3339), start.UTC().Format(time.RFC3339)})
	}
	return starts
}

// beginnings returns a line with the next windows of the limit, "" if they are not those
// of a clock.
func (l *fixedLimit) beginnings() string {
	var next []string
	for _, start := range l.Next {
		text := start.Local
		if start.UTC != start.Local {
			text += " (" + start.UTC + ")"
		}
		next = append(next, text)
	}
	if len(next) == 0 {
		return ""
	}
	return fmt.Sprintf("  %s, limit %s: the next windows begin at %s\n", l.Policy, l.Limit, strings.Join(next, " and "))
}

// worstOf returns the most units that a limit allows in the length of its window, or that
// it lets run at once.
func worstOf(l *weir.Limit) int64 {
	switch l.Kind {
	case weir.Fixed, weir.FixedFromFirst:
		return 2 * l.Max // across the edge of two windows
	case weir.Bucket:
		return l.Capacity() + l.Max
	}
	return l.Max
}

// worstCase returns the bound of limit i in words: the most units in the length of its
// window, or at once.
func worstCase(p *policy.Definition, i int) string {
	l := &p.Limits[i]
	if l.Max == weir.MaxUnits {
		return "no bound"
	}
	length := policy.FormatDuration(l.Window + l.MaxHold) // one of them is 0
	text := ""
	switch {
	case l.Kind == weir.Bucket:
		text = fmt.Sprintf("at most %d at once, and in any %s at most %d", l.Capacity(), answer.Span(l.Window), worstOf(l))
	case l.Kind == weir.Concurrency:
		text = fmt.Sprintf("at most %d held at any instant; a hold ends with its settlement, at the latest after %s; those of plain attempts, such as Envoy's, only after %s", l.Max, length, length)
	case l.Period != weir.NoPeriod:
		text = fmt.Sprintf("at most %d in each %v, and up to %d in its length across an edge", l.Max, l.Period, worstOf(l))
	case l.Kind != weir.Rolling:
		text = fmt.Sprintf("at most %d in any %s, across the edge of two windows", worstOf(l), length)
	default:
		text = fmt.Sprintf("at most %d in any %s", l.Max, length)
	}
	switch most := maxOf(p, i, func(l *weir.Limit) int64 { return l.Max }); {
	case most == weir.MaxUnits:
		return text + "; no bound with plans and overrides"
	default:
		if worst := maxOf(p, i, worstOf); worst > worstOf(l) {
			text += fmt.Sprintf("; %d with plans and overrides", worst)
		}
	}
	return text
}

// warnsAt returns the share of limit i at which a grant carries a warning, in words.
func warnsAt(p *policy.Definition, i int) string {
	if share := p.WarnAt(i); share > 0 {
		return fmt.Sprintf("; warns at %d%%", share)
	}
	return ""
}

// maxOf returns the largest value of limit i, with the policy's plans and overrides.
func maxOf(p *policy.Definition, i int, value func(*weir.Limit) int64) int64 {
	most := value(&p.Limits[i])
	raise := func(changes []policy.Change) {
		for _, c := range changes {
			if c.Limit == i {
				l := p.Limits[i]
				l.Max, l.Burst = c.Max, c.Burst
				most = max(most, value(&l))
			}
		}
	}
	for _, plan := range p.Plans {
		raise(plan.Changes)
	}
	for _, o := range p.Overrides {
		raise(o.Changes)
	}
	return most
}

// mistakes returns notes about valid limits that are probably mistakes.
func mistakes(p *policy.Definition) (notes []string) {
	for i, l := range p.Limits {
		if most := maxOf(p, i, (*weir.Limit).Capacity); l.Cost > most {
			notes = append(notes, fmt.Sprintf("line %d: an attempt costs %d of limit %s of %s, which allows %d, so no attempt is ever allowed", p.Line, l.Cost, l.Name, p.Name, most))
		}
		longest, reason := l.Window, "its window"
		switch l.Kind {
		case weir.Bucket:
			longest, reason = l.FillTime(), "the time in which it fills"
		case weir.Concurrency:
			longest, reason = l.MaxHold, "the time of a hold"
		}
		if b := p.BlockOf(i); b > 0 && b < longest {
			notes = append(notes, fmt.Sprintf("line %d: limit %s of %s blocks for %s, and without a block it denies for up to %s, %s; make the block longer",
				p.Line, l.Name, p.Name, policy.FormatDuration(b), policy.FormatDuration(longest), reason))
		}
	}
	return notes
}
