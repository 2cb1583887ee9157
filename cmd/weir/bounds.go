package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// kindLimit is a limit that is not rolling, with its worst case. The members that its kind
// does not have are missing.
type kindLimit struct {
	Policy   string        `json:"policy"`
	Limit    string        `json:"limit"`
	Sentence string        `json:"sentence"`
	Max      int64         `json:"max"`
	Burst    int64         `json:"burst,omitempty"`
	Worst    *int64        `json:"worst,omitempty"`       // units in the length of a window, of fixed windows across the edge of two
	WindowMS int64         `json:"window_ms,omitempty"`   // rounded up
	MaxHold  int64         `json:"max_hold_ms,omitempty"` // the longest time of a hold, rounded up
	Next     []windowStart `json:"next,omitempty"`        // the next two windows of hours, days, weeks or months
}

// windowStart is the first instant of a window.
type windowStart struct {
	Local string `json:"local"` // in the limit's time zone, RFC 3339
	UTC   string `json:"utc"`
}

// addKind adds limit i to the list of its kind. Rolling limits and those without a bound
// have none. c is the compiled limit.
func (v *validFile) addKind(p *policy.Definition, i int, c *engine.Limit, next []windowStart) {
	l := &p.Limits[i]
	kind := kindLimit{Policy: p.Name, Limit: l.Name, Sentence: p.Sentence(i), Max: l.Max}
	if l.MaxHold == 0 {
		worst := answer.Worst(c) // present also if it is 0
		kind.Burst, kind.Worst, kind.WindowMS, kind.Next = l.Burst, &worst, answer.Millis(l.Window), next
	}
	switch {
	case answer.Uncounted(c) == "": // rolling
	case l.Burst > 0:
		v.Buckets = append(v.Buckets, kind)
	case l.Max == weir.MaxUnits:
	case l.MaxHold > 0:
		kind.MaxHold = answer.Millis(l.MaxHold)
		v.Concurrency = append(v.Concurrency, kind)
	default:
		v.Fixed = append(v.Fixed, kind)
	}
}

// nextWindows returns the beginnings of the two windows after the current one, of a limit
// with windows by the clock of a zone.
func nextWindows(l *engine.Limit, now time.Time) []windowStart {
	if l.Period == nil {
		return nil
	}
	var starts []windowStart
	for at := now.UnixMicro(); len(starts) < 2; {
		_, at = l.Period.WindowAt(at)
		start := time.UnixMicro(at)
		starts = append(starts, windowStart{start.In(l.Period.Zone).Format(time.RFC3339), start.UTC().Format(time.RFC3339)})
	}
	return starts
}

// beginnings returns a line with the next windows of the limit, "" if they are not those
// of a clock.
func (l *kindLimit) beginnings() string {
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

// worstCase returns the bound of limit i in words: the most units in the length of its
// window, or at once. c is the compiled limit.
func worstCase(p *policy.Definition, i int, c *engine.Limit) string {
	if c.Max == weir.MaxUnits {
		return "no bound"
	}
	text := answer.WorstCase(c, policy.FormatDuration(time.Duration(c.Window)*time.Microsecond))
	if maxOf(p, i, c, func(l *engine.Limit) int64 { return l.Max }) == weir.MaxUnits {
		return text + "; no bound with plans and overrides"
	}
	if worst := maxOf(p, i, c, answer.Worst); worst > answer.Worst(c) {
		text += fmt.Sprintf("; %d with plans and overrides", worst)
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

// maxOf returns the largest value of limit i, with the policy's plans and overrides. c is the
// compiled limit.
func maxOf(p *policy.Definition, i int, c *engine.Limit, value func(*engine.Limit) int64) int64 {
	most, changed := value(c), *c
	raise := func(changes []policy.Change) {
		for _, change := range changes {
			if change.Limit == i {
				changed.Max, changed.Capacity = change.Max, cmp.Or(change.Burst, change.Max)
				most = max(most, value(&changed))
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
func mistakes(p *policy.Definition, compiled *engine.Compiled) (notes []string) {
	for i, l := range p.Limits {
		c := &compiled.Limits[i]
		if most := maxOf(p, i, c, func(l *engine.Limit) int64 { return l.Capacity }); l.Cost > most {
			notes = append(notes, fmt.Sprintf("line %d: an attempt costs %d of limit %s of %s, which allows %d, so no attempt is ever allowed", p.Line, l.Cost, l.Name, p.Name, most))
		}
		longest, reason := answer.Longest(c)
		if b := p.BlockOf(i); b > 0 && b < longest {
			notes = append(notes, fmt.Sprintf("line %d: limit %s of %s blocks for %s, and without a block it denies for up to %s, %s; make the block longer",
				p.Line, l.Name, p.Name, policy.FormatDuration(b), policy.FormatDuration(longest), reason))
		}
	}
	return notes
}
