package weir

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/internal/window"
)

// Policy is a named set of limits that are decided together, at one instant, all or none
// (R7). New rejects the zero Policy.
//
// A history belongs to the policy's name, the limit's name and kind, and the key (R12). Two
// limiters on one engine with the same names and kinds share the histories, even if their
// numbers differ.
type Policy struct {
	Name   string  // same form as Limit.Name; an engine never forgets it, so it is no place for values of a key
	Mode   Mode    // AllOrNothing by default
	Limits []Limit // 1 … engine.MaxLimits

	// Dimensions are the names of the values of a key, in the order of [K]: each dimension that
	// a limit counts by, and no other. A policy with at most one dimension may leave them out.
	Dimensions []string
}

// Limit allows at most Max units in any rolling Window and, with a MinInterval, at least
// that time between two grants. Another Kind gives Max and Window another meaning. [Per], [Bucket],
// [AtOnce] and [Calendar] set the fields of each kind; Cells, Cost and Anchor are set on their
// results. A duration without a unit is nanoseconds: 3_600_000 is 3.6ms, and an hour is time.Hour.
type Limit struct {
	Name        string        // unique in its policy, [a-z0-9][a-z0-9._-]{0,63}; names the history; "" = a name by [Limit.Named]
	Max         int64         // units per window, 0 … MaxUnits; 0 denies everything
	Window      time.Duration // whole microseconds, 1ms … 400 days; with a Period 0, or the length of the Period; of KindConcurrency 0
	MaxHold     time.Duration // longest time of a hold of KindConcurrency, in place of Window (R17); 0 for other kinds
	MinInterval time.Duration // least time between two grants, whole microseconds, 0 … Window, or MaxHold
	Block       time.Duration // for how long a denial by the limit blocks its key, whole microseconds, 1ms … 400 days; 0 = not (R20)
	By          []string      // dimensions this limit counts by, in any order; none = all callers together
	Cells       int           // 0 = exact; b = sampled on a grid of b cells a window (R9); KindRolling only
	Cost        int64         // units that an attempt takes of this limit; 0 = its own number (R7)
	Kind        Kind          // where windows begin (R3), or a bucket (R16), or holds (R17); KindRolling by default
	Burst       int64         // capacity of a KindBucket in units, 1 … MaxUnits; 0 = Max (R16)
	Period      Period        // length of KindFixed windows by the clock of a Zone; NoPeriod = multiples of Window (R3)
	Zone        string        // IANA name of the time zone of the Period, such as Europe/Berlin; "" = UTC
	Anchor      int           // first day of Month (1 … 31) and Week (1 = Monday … 7 = Sunday) windows; 0 = 1
}

// check returns the first mistake of the policy as a *PolicyError.
func (p Policy) check() error {
	bad := func(limit, field, format string, args ...any) error {
		return &PolicyError{Policy: shorten.Text(p.Name), Limit: shorten.Text(limit), Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	switch problem := nameProblem(p.Name); {
	case problem != "":
		return bad("", "Name", "%s", problem)
	case p.Mode > CountDenied:
		return bad("", "Mode", "%d is not a mode; use AllOrNothing, Partial or CountDenied", p.Mode)
	case len(p.Limits) == 0:
		return bad("", "Limits", "a policy needs at least one limit")
	case len(p.Limits) > engine.MaxLimits:
		return bad("", "Limits", "%d limits; at most %d are decided together", len(p.Limits), engine.MaxLimits)
	}
	named := p.named().Limits
	for i := range named {
		l, shown := &named[i], named[i].Name
		unnamed := p.Limits[i].Name == "" && len(named) > 1
		if unnamed {
			shown = fmt.Sprintf("#%d", i+1)
		}
		wrongName := nameProblem(l.Name)
		switch field, problem := l.problem(); {
		case wrongName != "" && !unnamed:
			return bad(shown, "Name", "%s", wrongName)
		case problem != "":
			return bad(shown, field, "%s", problem)
		case wrongName != "":
			return bad(shown, "Name", "made of the window and the dimensions it is %s; choose one with Named", wrongName)
		case slices.ContainsFunc(named[:i], func(o Limit) bool { return o.Name == l.Name }):
			return bad(shown, "Name", "%q is used twice, and histories belong to the name; give each limit one with Named", l.Name)
		case l.Cost > 0 && p.Mode == Partial:
			return bad(shown, "Cost", "a fixed cost cannot be granted in part; use AllOrNothing, or no cost (R6)")
		case l.Kind == KindConcurrency && p.Mode == CountDenied:
			return bad(shown, "Kind", "denied attempts hold nothing, so they cannot be counted; use another Mode, or a limit of another kind (R17)")
		}
	}
	if problem := p.dimensionsProblem(); problem != "" {
		return bad("", "Dimensions", "%s", problem)
	}
	return nil
}

// problem returns the first field of the limit that is out of its range, and the reason.
func (l Limit) problem() (field, problem string) {
	switch {
	case l.Max < 0:
		return "Max", fmt.Sprintf("%d is below 0; use 0 to deny everything", l.Max)
	case l.Max > MaxUnits:
		return "Max", fmt.Sprintf("%d is above the largest, %d", l.Max, MaxUnits)
	case l.Kind > KindConcurrency:
		return "Kind", fmt.Sprintf("%d is not a kind; use KindRolling, KindFixed, KindFixedFromFirst, KindBucket or KindConcurrency", l.Kind)
	}
	if field, problem := l.periodProblem(); problem != "" {
		return field, problem
	}
	if l.Kind == KindFixed && l.Period == NoPeriod && l.Window == 0 {
		return "Period", "missing; a limit of kind KindFixed needs a period such as weir.Day, or a Window"
	}
	length, field, what := l.window(), "Window", "window"
	if l.Kind == KindConcurrency {
		field, what = "MaxHold", "longest hold"
	}
	switch {
	case l.Kind == KindConcurrency && l.Window != 0:
		return "Window", fmt.Sprintf("%v of a concurrency limit, which has no window; use 0, and MaxHold for the longest time of a hold (R17)", l.Window)
	case l.Kind == KindConcurrency && l.MaxHold == 0:
		return "MaxHold", "missing; a concurrency limit needs the longest time of a hold, 1ms to 400 days (R17)"
	case l.Kind != KindConcurrency && l.MaxHold != 0:
		return "MaxHold", fmt.Sprintf("%v of a limit of kind %v, which holds nothing; use 0, or KindConcurrency (R17)", l.MaxHold, l.Kind)
	case length < MinWindow || length > MaxWindow:
		return field, fmt.Sprintf("%v is out of range; use 1ms to 400 days%s", length, bareNumber(length))
	case length%time.Microsecond != 0:
		return field, fmt.Sprintf("%v is not whole microseconds; round it%s", length, bareNumber(length))
	case l.MinInterval < 0:
		return "MinInterval", fmt.Sprintf("%v is below 0", l.MinInterval)
	case l.MinInterval > length:
		return "MinInterval", fmt.Sprintf("%v is longer than the %s of %v (R5)", l.MinInterval, what, length)
	case l.MinInterval%time.Microsecond != 0:
		return "MinInterval", fmt.Sprintf("%v is not whole microseconds; round it%s", l.MinInterval, bareNumber(l.MinInterval))
	case l.Block != 0 && (l.Block < MinWindow || l.Block > MaxWindow):
		return "Block", fmt.Sprintf("%v is out of range; use 1ms to 400 days, or 0 for no block%s", l.Block, bareNumber(l.Block))
	case l.Block%time.Microsecond != 0:
		return "Block", fmt.Sprintf("%v is not whole microseconds; round it%s", l.Block, bareNumber(l.Block))
	case l.Cells < 0:
		return "Cells", fmt.Sprintf("%d is below 0; 0 is exact", l.Cells)
	case l.Cells > 0 && l.Kind == KindConcurrency:
		return "Cells", fmt.Sprintf("%d cells of a concurrency limit, whose holds end one by one; use 0 (R9)", l.Cells)
	case l.Cells > 0 && l.Kind != KindRolling:
		return "Cells", fmt.Sprintf("%d cells of a window of kind %v, which is stored as one number anyway; use 0, or KindRolling (R9)", l.Cells, l.Kind)
	case l.Cost < 0 || l.Cost > MaxUnits:
		return "Cost", fmt.Sprintf("%d is out of range; use 0 to take the units of the attempt, or 1 to %d", l.Cost, MaxUnits)
	}
	if field, problem := l.bucketProblem(); problem != "" {
		return field, problem
	}
	for i, dim := range l.By {
		if problem := nameProblem(dim); problem != "" {
			return "By", fmt.Sprintf("dimension %d: %s", i+1, problem)
		}
		if slices.Contains(l.By[:i], dim) {
			return "By", fmt.Sprintf("%q is named twice", dim)
		}
	}
	return "", ""
}

// bareNumber returns a clause for a duration that was probably written without a unit, or "".
func bareNumber(d time.Duration) string {
	if d < 1 || d >= MinWindow {
		return ""
	}
	return fmt.Sprintf(", and a number without a unit is nanoseconds: write %d*time.Second for %[1]d seconds, "+
		"or %[1]d*time.Millisecond for %[1]d milliseconds", int64(d))
}

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
		alnum := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			allowed, next := " . _ -", ""
			if i == 0 {
				allowed = ""
			}
			if lower := strings.ToLower(s); lower != s && ValidName(lower) {
				next = fmt.Sprintf("; write %q", lower)
			}
			return fmt.Sprintf("%q: byte %d is not one of a-z 0-9%s%s", s, i+1, allowed, next)
		}
	}
	return ""
}

// ValidName reports whether s can name a policy, a limit or a dimension:
// [a-z0-9][a-z0-9._-]{0,63}.
func ValidName(s string) bool { return nameProblem(s) == "" }

// capacity returns the most units of one attempt: the Burst of a KindBucket, or Max.
func (l *Limit) capacity() int64 {
	if l.Kind == KindBucket && l.Burst > 0 {
		return l.Burst
	}
	return l.Max
}

// bucketProblem returns the field of a Bucket that is out of its range, and the reason.
func (l *Limit) bucketProblem() (field, problem string) {
	switch {
	case l.Kind != KindBucket && l.Burst != 0:
		return "Burst", fmt.Sprintf("%d is the capacity of a bucket, and the limit is of kind %v; use 0, or KindBucket", l.Burst, l.Kind)
	case l.Kind != KindBucket:
		return "", ""
	case l.Max == 0:
		return "Max", "a bucket that never refills; use 1 or more, or KindRolling to deny everything"
	case l.Burst < 0 || l.Burst > MaxUnits:
		return "Burst", fmt.Sprintf("%d is out of range; use 1 to %d, or 0 for Max", l.Burst, MaxUnits)
	}
	if burst := l.capacity(); burst > l.maxBurst() {
		return "Burst", fmt.Sprintf("a bucket of %d units at %d per %v fills in more than 400 days, or is not exact in microseconds below 2^51; use at most %d, or a rounder Max (R16)",
			burst, l.Max, l.Window, l.maxBurst())
	}
	return "", ""
}

// maxBurst returns the largest Burst at the rate of the limit, whose Max and Window are
// valid and above 0: its refill is exact, and it fills within 400 days (R16).
func (l *Limit) maxBurst() int64 {
	rate := window.NewRefill(l.Max, l.Window.Microseconds())
	return rate.MaxBurst()
}

// window returns Window, the length of the Period, or of Concurrency MaxHold.
func (l *Limit) window() time.Duration {
	if l.Period != NoPeriod {
		return l.Period.Length()
	}
	if l.Kind == KindConcurrency {
		return l.MaxHold
	}
	return l.Window
}

// periodProblem returns the field of a Period that is out of its range, and the reason.
func (l *Limit) periodProblem() (field, problem string) {
	switch {
	case l.Period > Month:
		return "Period", fmt.Sprintf("%d is not a period; use Hour, Day, Week or Month, or NoPeriod", l.Period)
	case l.Period == NoPeriod && l.Zone != "":
		return "Zone", fmt.Sprintf("%q without a Period; windows of another length have no time zone", shorten.Text(l.Zone))
	case l.Period == NoPeriod && l.Anchor != 0:
		return "Anchor", fmt.Sprintf("%d without a Period; use Month or Week, or 0", l.Anchor)
	case l.Period == NoPeriod:
		return "", ""
	case l.Kind != KindFixed:
		return "Period", fmt.Sprintf("a %v of a limit of kind %v; use KindFixed, or a Window", l.Period, l.Kind)
	case l.Window != 0 && l.Window != l.Period.Length():
		return "Window", fmt.Sprintf("%v beside the period %v; leave it out, or use %v", l.Window, l.Period, l.Period.Length())
	}
	if most := map[Period]int{Week: 7, Month: 31}[l.Period]; l.Anchor < 0 || l.Anchor > max(most, 1) {
		return "Anchor", fmt.Sprintf("%d is out of range for a %v; use 0 to %d", l.Anchor, l.Period, max(most, 1))
	}
	if _, err := loadZone(l.Zone); err != nil {
		return "Zone", fmt.Sprintf("%q is not a known time zone; %s", shorten.Text(l.Zone), nextZone())
	}
	return "", ""
}

// nextZone returns the next step after an unknown time zone, by whether this machine knows others.
func nextZone() string {
	if _, err := loadZone("Europe/Berlin"); err != nil {
		return `this machine has no data of time zones: import _ "time/tzdata"`
	}
	return "this machine has those of the IANA database, such as Europe/Berlin: check the spelling"
}

// zones holds the time zones that were loaded, by name. Loading one reads files, and a
// policy file may have thousands of limits. Only valid names are stored.
var zones sync.Map // *time.Location by name

// loadZone returns the time zone of an IANA name; "" is UTC. The machine's own zone has no
// name: a limit must not depend on the machine.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("the zone of the machine")
	}
	if zone, loaded := zones.Load(name); loaded {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// Compile checks every field of the policy and returns its rules for engines. The error is a
// *PolicyError that names the limit and the field.
func (p Policy) Compile() (*engine.Compiled, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	p = p.named()
	limits := make([]engine.Limit, len(p.Limits))
	for i := range p.Limits {
		limits[i] = p.Limits[i].compile(p.Dimensions)
	}
	return engine.Compile(p.Name, p.Mode, slices.Clone(p.Dimensions), limits), nil
}

// compile turns a checked limit of a policy with these dimensions into numbers.
func (l *Limit) compile(dimensions []string) engine.Limit {
	c := engine.Limit{
		Name:        l.Name,
		Max:         l.Max,
		Window:      l.window().Microseconds(),
		MinInterval: l.MinInterval.Microseconds(),
		Block:       l.Block.Microseconds(),
		Cost:        l.Cost,
		Kind:        l.Kind,
		Capacity:    l.capacity(),
	}
	if l.Period != NoPeriod {
		zone, _ := loadZone(l.Zone)
		c.Period = &engine.Calendar{Period: l.Period, Anchor: max(l.Anchor, 1), Zone: zone}
	}
	if l.Cells > 0 {
		c.Cell = (c.Window-1)/int64(l.Cells) + 1 // rounded up
	}
	for _, dim := range l.By {
		c.By = append(c.By, slices.Index(dimensions, dim))
	}
	return c
}
