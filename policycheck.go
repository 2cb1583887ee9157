package weir

import (
	"fmt"
	"slices"
	"time"
)

// check reports the first thing wrong with the policy, as a *PolicyError.
func (p Policy) check() error {
	bad := func(limit, field, format string, args ...any) error {
		return &PolicyError{Policy: clip(p.Name), Limit: clip(limit), Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	if problem := nameProblem(p.Name); problem != "" {
		return bad("", "Name", "%s", problem)
	}
	if p.Mode > CountDenied {
		return bad("", "Mode", "%d is not a mode; use AllOrNothing, Partial or CountDenied", p.Mode)
	}
	if len(p.Limits) == 0 {
		return bad("", "Limits", "a policy needs at least one limit")
	}
	if len(p.Limits) > MaxLimits {
		return bad("", "Limits", "%d limits; at most %d are decided together", len(p.Limits), MaxLimits)
	}
	for i, l := range p.Limits {
		name := l.Name
		if name == "" {
			name = fmt.Sprintf("#%d", i+1)
		}
		if problem := nameProblem(l.Name); problem != "" {
			return bad(name, "Name", "%s", problem)
		}
		if slices.ContainsFunc(p.Limits[:i], func(o Limit) bool { return o.Name == l.Name }) {
			return bad(name, "Name", "used twice; the name tells histories apart, so it must be unique in the policy")
		}
		if field, problem := l.problem(); problem != "" {
			return bad(name, field, "%s", problem)
		}
		if l.Cost > 0 && p.Mode == Partial {
			return bad(name, "Cost", "a cost of its own has no parts to grant; use AllOrNothing, or no cost (R6)")
		}
	}
	return nil
}

// problem returns the first field of the limit that is out of its range, and why.
func (l Limit) problem() (field, problem string) {
	switch {
	case l.Max < 0:
		return "Max", fmt.Sprintf("%d is below 0; use 0 to refuse everything", l.Max)
	case l.Max > MaxUnits:
		return "Max", fmt.Sprintf("%d is above the largest, %d", l.Max, MaxUnits)
	case l.Window < MinWindow || l.Window > MaxWindow:
		return "Window", fmt.Sprintf("%v is out of range; use 1ms to 400 days", l.Window)
	case l.Window%time.Microsecond != 0:
		return "Window", fmt.Sprintf("%v is not whole microseconds", l.Window)
	case l.MinInterval < 0:
		return "MinInterval", fmt.Sprintf("%v is below 0", l.MinInterval)
	case l.MinInterval > l.Window:
		return "MinInterval", fmt.Sprintf("%v is longer than the window of %v (R5)", l.MinInterval, l.Window)
	case l.MinInterval%time.Microsecond != 0:
		return "MinInterval", fmt.Sprintf("%v is not whole microseconds", l.MinInterval)
	case l.Cells < 0:
		return "Cells", fmt.Sprintf("%d is below 0; 0 is exact", l.Cells)
	case l.Kind > FirstHit:
		return "Kind", fmt.Sprintf("%d is not a kind; use Rolling, Calendar or FirstHit", l.Kind)
	case l.Kind != Rolling && l.Cells > 0:
		return "Cells", fmt.Sprintf("%d cells of a window of kind %v, which is remembered as one number anyway; use 0, or Rolling (R9)", l.Cells, l.Kind)
	case l.Cost < 0 || l.Cost > MaxUnits:
		return "Cost", fmt.Sprintf("%d is out of range; use 0 to take what is asked for, or 1 to %d", l.Cost, MaxUnits)
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

// nameProblem returns what keeps s from being [a-z0-9][a-z0-9._-]{0,63}, or "".
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
			return fmt.Sprintf("%q: byte %d is not one of a-z 0-9%s", s, i+1, map[bool]string{true: "", false: " . _ -"}[i == 0])
		}
	}
	return ""
}

// ValidName reports whether s can name a policy, a limit or a dimension:
// [a-z0-9][a-z0-9._-]{0,63}.
func ValidName(s string) bool { return nameProblem(s) == "" }
