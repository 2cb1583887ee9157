package weir

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/internal/window"
)

// mistake is a wrong field of a policy or of a limit. A nil *mistake is none.
type mistake struct {
	field   string
	problem string // the reason and the valid values
}

func wrong(field, format string, args ...any) *mistake {
	return &mistake{field: field, problem: fmt.Sprintf(format, args...)}
}

// check returns the first mistake of the policy as a *PolicyError.
func (p Policy) check() error {
	if m := p.checkItself(); m != nil {
		return p.rejection("", m)
	}
	named := p.named().Limits
	for i := range named {
		if m := p.checkLimit(named, i); m != nil {
			return p.rejection(p.shownName(named, i), m)
		}
	}
	if m := p.checkDimensions(); m != nil {
		return p.rejection("", m)
	}
	return nil
}

// rejection returns the error of a mistake in the limit of that name, or in the policy itself.
func (p *Policy) rejection(limit string, m *mistake) error {
	return &PolicyError{
		Policy:  shorten.Text(p.Name),
		Limit:   shorten.Text(limit),
		Field:   m.field,
		Problem: m.problem,
	}
}

// shownName returns the name of a limit in errors: #1, #2, … for one that the caller has not
// named, among several.
func (p *Policy) shownName(named []Limit, i int) string {
	if p.Limits[i].Name == "" && len(named) > 1 {
		return fmt.Sprintf("#%d", i+1)
	}
	return named[i].Name
}

// checkItself checks the fields of the policy besides those of its limits and its dimensions.
func (p *Policy) checkItself() *mistake {
	if problem := nameProblem(p.Name); problem != "" {
		return &mistake{"Name", problem}
	}
	if p.Mode > CountDenied {
		return wrong("Mode", "%d is not a mode; use AllOrNothing, Partial or CountDenied", p.Mode)
	}
	if len(p.Limits) == 0 {
		return wrong("Limits", "a policy needs at least one limit")
	}
	if len(p.Limits) > engine.MaxLimits {
		return wrong("Limits", "%d limits; at most %d are decided together",
			len(p.Limits), engine.MaxLimits)
	}
	return nil
}

// checkLimit checks limit i: alone, beside those before it, and under the mode of the policy.
// named are all limits with their names.
func (p *Policy) checkLimit(named []Limit, i int) *mistake {
	l := &named[i]
	wrongName := nameProblem(l.Name)
	given := p.Limits[i].Name != ""
	if wrongName != "" && given {
		return &mistake{"Name", wrongName}
	}
	if m := l.check(); m != nil {
		return m
	}
	if wrongName != "" {
		return wrong("Name",
			"made of the window and the dimensions it is %s; choose one with Named",
			wrongName)
	}
	if slices.ContainsFunc(named[:i], func(o Limit) bool { return o.Name == l.Name }) {
		return wrong("Name", "%q is used twice, and histories belong to the name; "+
			"give each limit one with Named", l.Name)
	}
	if l.Cost > 0 && p.Mode == Partial {
		return wrong("Cost", "a fixed cost cannot be granted in part; use AllOrNothing, or no cost")
	}
	if l.Kind == KindConcurrency && p.Mode == CountDenied {
		return wrong("Kind", "denied attempts hold nothing, so they cannot be counted; "+
			"use another Mode, or a limit of another kind")
	}
	return nil
}

// check returns the first mistake of the limit, besides that of its name.
func (l *Limit) check() *mistake {
	checks := []func(*Limit) *mistake{
		(*Limit).checkMax,
		(*Limit).checkOtherKinds,
		(*Limit).checkKind, // the next check needs a valid length
		(*Limit).checkMinInterval,
		(*Limit).checkBlock,
		(*Limit).checkCost,
		(*Limit).checkBy,
	}
	for _, check := range checks {
		if m := check(l); m != nil {
			return m
		}
	}
	return nil
}

func (l *Limit) checkMax() *mistake {
	if l.Max < 0 {
		return wrong("Max", "%d is below 0; use 0 to deny everything", l.Max)
	}
	if l.Max > MaxUnits {
		return wrong("Max", "%d is above the largest, %d", l.Max, MaxUnits)
	}
	return nil
}

// checkOtherKinds rejects fields that belong to other kinds of limits.
func (l *Limit) checkOtherKinds() *mistake {
	switch {
	case l.Period != NoPeriod && l.Kind != KindFixed:
		return wrong("Period", "a %v of a limit of kind %v; use KindFixed, or a Window",
			l.Period, l.Kind)
	case l.Zone != "" && l.Period == NoPeriod:
		return wrong("Zone", "%q without a Period; windows of another length have no time zone",
			shorten.Text(l.Zone))
	case l.Anchor != 0 && l.Period == NoPeriod:
		return wrong("Anchor", "%d without a Period; use Month or Week, or 0", l.Anchor)
	case l.Window != 0 && l.Kind == KindConcurrency:
		return wrong("Window", "%v of a concurrency limit, which has no window; "+
			"use 0, and MaxHold for the longest time of a hold", l.Window)
	case l.MaxHold != 0 && l.Kind != KindConcurrency:
		return wrong("MaxHold", "%v of a limit of kind %v, which holds nothing; "+
			"use 0, or KindConcurrency", l.MaxHold, l.Kind)
	case l.Cells > 0 && l.Kind == KindConcurrency:
		return wrong("Cells", "%d cells of a concurrency limit, whose holds end one by one; use 0",
			l.Cells)
	case l.Cells > 0 && l.Kind != KindRolling:
		return wrong("Cells", "%d cells of a window of kind %v, "+
			"which is stored as one number anyway; use 0, or KindRolling", l.Cells, l.Kind)
	case l.Burst != 0 && l.Kind != KindBucket:
		return wrong("Burst", "%d is the capacity of a bucket, and the limit is of kind %v; "+
			"use 0, or KindBucket", l.Burst, l.Kind)
	}
	return nil
}

// checkKind checks the fields that the kind of the limit needs.
func (l *Limit) checkKind() *mistake {
	switch l.Kind {
	case KindRolling:
		return l.checkRolling()
	case KindFixed:
		return l.checkFixed()
	case KindFixedFromFirst:
		return checkLength("Window", l.Window)
	case KindBucket:
		return l.checkBucket()
	case KindConcurrency:
		return l.checkConcurrency()
	}
	return wrong("Kind", "%d is not a kind; use KindRolling, KindFixed, KindFixedFromFirst, "+
		"KindBucket or KindConcurrency", l.Kind)
}

func (l *Limit) checkRolling() *mistake {
	if l.Cells < 0 {
		return wrong("Cells", "%d is below 0; 0 is exact", l.Cells)
	}
	return checkLength("Window", l.Window)
}

// checkFixed checks a limit whose windows are periods, or multiples of its Window.
func (l *Limit) checkFixed() *mistake {
	if l.Period != NoPeriod {
		return l.checkPeriod()
	}
	if l.Window == 0 {
		return wrong("Period",
			"missing; a limit of kind KindFixed needs a period such as weir.Day, or a Window")
	}
	return checkLength("Window", l.Window)
}

func (l *Limit) checkPeriod() *mistake {
	if l.Period > Month {
		return wrong("Period",
			"%d is not a period; use Hour, Day, Week or Month, or NoPeriod", l.Period)
	}
	if length := l.Period.Length(); l.Window != 0 && l.Window != length {
		return wrong("Window", "%v beside the period %v; leave it out, or use %v",
			l.Window, l.Period, length)
	}
	if last := lastAnchor(l.Period); l.Anchor < 0 || l.Anchor > last {
		return wrong("Anchor", "%d is out of range for a %v; use 0 to %d", l.Anchor, l.Period, last)
	}
	if _, err := loadZone(l.Zone); err != nil {
		return wrong("Zone", "%q is not a known time zone; %s", shorten.Text(l.Zone), nextZone())
	}
	return nil
}

// lastAnchor returns the largest Anchor of a period. One without an anchor begins on its day 1.
func lastAnchor(p Period) int {
	switch p {
	case Week:
		return 7
	case Month:
		return 31
	default:
		return 1
	}
}

func (l *Limit) checkBucket() *mistake {
	if m := checkLength("Window", l.Window); m != nil {
		return m
	}
	if l.Max == 0 {
		return wrong("Max", "a bucket that never refills; "+
			"use 1 or more, or KindRolling to deny everything")
	}
	if l.Burst < 0 || l.Burst > MaxUnits {
		return wrong("Burst", "%d is out of range; use 1 to %d, or 0 for Max", l.Burst, MaxUnits)
	}
	if burst := l.capacity(); burst > l.maxBurst() {
		return wrong("Burst", "a bucket of %d units at %d per %v fills in more than 400 days, "+
			"or is not exact in microseconds below 2^51; use at most %d, or a rounder Max",
			burst, l.Max, l.Window, l.maxBurst())
	}
	return nil
}

// maxBurst returns the largest Burst at the rate of the limit, whose Max and Window are
// valid and above 0: its refill is exact, and it fills within 400 days (R16).
func (l *Limit) maxBurst() int64 {
	rate := window.NewRefill(l.Max, l.Window.Microseconds())
	return rate.MaxBurst()
}

func (l *Limit) checkConcurrency() *mistake {
	if l.MaxHold == 0 {
		return wrong("MaxHold",
			"missing; a concurrency limit needs the longest time of a hold, 1ms to 400 days")
	}
	return checkLength("MaxHold", l.MaxHold)
}

// checkLength checks the length of a window, or the longest time of a hold.
func checkLength(field string, length time.Duration) *mistake {
	if length < MinWindow || length > MaxWindow {
		return wrong(field, "%v is out of range; use 1ms to 400 days%s", length, bareNumber(length))
	}
	return checkMicroseconds(field, length)
}

func checkMicroseconds(field string, d time.Duration) *mistake {
	if d%time.Microsecond != 0 {
		return wrong(field, "%v is not whole microseconds; round it%s", d, bareNumber(d))
	}
	return nil
}

func (l *Limit) checkMinInterval() *mistake {
	if l.MinInterval < 0 {
		return wrong("MinInterval", "%v is below 0", l.MinInterval)
	}
	if length := l.window(); l.MinInterval > length {
		what := "window"
		if l.Kind == KindConcurrency {
			what = "longest hold"
		}
		return wrong("MinInterval", "%v is longer than the %s of %v", l.MinInterval, what, length)
	}
	return checkMicroseconds("MinInterval", l.MinInterval)
}

func (l *Limit) checkBlock() *mistake {
	if l.Block == 0 {
		return nil
	}
	if l.Block < MinWindow || l.Block > MaxWindow {
		return wrong("Block", "%v is out of range; use 1ms to 400 days, or 0 for no block%s",
			l.Block, bareNumber(l.Block))
	}
	return checkMicroseconds("Block", l.Block)
}

func (l *Limit) checkCost() *mistake {
	if l.Cost < 0 || l.Cost > MaxUnits {
		return wrong("Cost",
			"%d is out of range; use 0 to take the units of the attempt, or 1 to %d",
			l.Cost, MaxUnits)
	}
	return nil
}

func (l *Limit) checkBy() *mistake {
	for i, dim := range l.By {
		if problem := nameProblem(dim); problem != "" {
			return wrong("By", "dimension %d: %s", i+1, problem)
		}
		if slices.Contains(l.By[:i], dim) {
			return wrong("By", "%q is named twice", dim)
		}
	}
	return nil
}

// checkDimensions compares Dimensions with the dimensions that the limits count by.
func (p *Policy) checkDimensions() *mistake {
	counted := p.counted()
	if most := max(len(counted), len(p.Dimensions)); most > MaxDimensions {
		return wrong("Dimensions", "the limits count by %d dimensions; %d are allowed",
			most, MaxDimensions)
	}
	if len(p.Dimensions) == 0 && len(counted) > 1 {
		return wrong("Dimensions", "missing; the limits count by %d dimensions, "+
			"so declare the order of the values in K, such as Dimensions: []string{%s}",
			len(counted), quoteAll(counted))
	}
	if len(p.Dimensions) == 0 {
		return nil
	}
	for i, dim := range p.Dimensions {
		if problem := nameProblem(dim); problem != "" {
			return wrong("Dimensions", "dimension %d: %s", i+1, problem)
		}
		if slices.Contains(p.Dimensions[:i], dim) {
			return wrong("Dimensions", "%q is named twice", dim)
		}
		if !slices.Contains(counted, dim) {
			return wrong("Dimensions",
				"no limit counts by %q; leave it out, or add it to the By of a limit", dim)
		}
	}
	for _, dim := range counted {
		if !slices.Contains(p.Dimensions, dim) {
			return wrong("Dimensions",
				"a limit counts by %q, which is not declared; use one of %s, or add it",
				shorten.Text(dim), quoteAll(p.Dimensions))
		}
	}
	return nil
}

// quoteAll returns names as a list of Go strings, the first of them if there are many.
func quoteAll(names []string) string {
	var b strings.Builder
	for i, name := range names[:min(len(names), MaxDimensions)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", shorten.Text(name))
	}
	return b.String()
}

// bareNumber returns a clause for a duration that was probably written without a unit, or "".
func bareNumber(d time.Duration) string {
	if d < 1 || d >= MinWindow {
		return ""
	}
	return fmt.Sprintf(", and a number without a unit is nanoseconds: "+
		"write %d*time.Second for %[1]d seconds, or %[1]d*time.Millisecond for %[1]d milliseconds",
		int64(d))
}

// ValidName reports whether s can name a policy, a limit or a dimension:
// [a-z0-9][a-z0-9._-]{0,63}.
func ValidName(s string) bool { return nameProblem(s) == "" }

// nameProblem returns the reason why s is not [a-z0-9][a-z0-9._-]{0,63}, or "".
func nameProblem(s string) string {
	if s == "" {
		return "empty; use 1 to 64 of a-z 0-9 . _ -"
	}
	if len(s) > 64 {
		return fmt.Sprintf("%d bytes long; at most 64 are allowed", len(s))
	}
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		punctuation := c == '.' || c == '_' || c == '-'
		switch {
		case alphanumeric || punctuation && i > 0:
		case i == 0:
			return fmt.Sprintf("%q: byte 1 is not one of a-z 0-9%s", s, lowerCase(s))
		default:
			return fmt.Sprintf("%q: byte %d is not one of a-z 0-9 . _ -%s", s, i+1, lowerCase(s))
		}
	}
	return ""
}

// lowerCase returns the next step for a name that is valid in lower case, or "".
func lowerCase(s string) string {
	if lower := strings.ToLower(s); lower != s && ValidName(lower) {
		return fmt.Sprintf("; write %q", lower)
	}
	return ""
}
