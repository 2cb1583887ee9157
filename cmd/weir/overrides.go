package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/definition"
	"github.com/weirlimit/weir/policy"
)

// withoutExpired returns the policy without the overrides that have expired at an instant.
func withoutExpired(p *policy.Definition, now time.Time) *policy.Definition {
	expired := definition.Expired(p, now)
	if len(expired) == 0 {
		return p
	}
	rest := *p
	rest.Overrides = nil
	for i := range p.Overrides {
		if !slices.Contains(expired, &p.Overrides[i]) {
			rest.Overrides = append(rest.Overrides, p.Overrides[i])
		}
	}
	return &rest
}

// variationMistakes returns notes about plans and overrides that probably do less than their
// author means.
func variationMistakes(p *policy.Definition) (notes []string) {
	for _, plan := range p.Plans {
		if plan.Name == "default" && p.PlanBy != "" {
			const note = "line %d: plan default of %s applies only to calls with %s=default; " +
				"without a plan the policy's own limits apply"
			notes = append(notes, fmt.Sprintf(note, plan.Line, p.Name, p.PlanBy))
		}
	}
	for _, o := range p.Overrides {
		hasStar := func(d policy.Dimension) bool { return strings.Contains(d.Value, "*") }
		if slices.ContainsFunc(o.For, hasStar) {
			const note = "line %d: the override of %s for %s is for that value alone, " +
				"since values have no wildcards"
			notes = append(notes, fmt.Sprintf(note, o.Line, p.Name, pairsText(o.For, answer.Shown)))
		}
	}
	return append(notes, hiddenOverrides(p)...)
}

// overrideGroup holds the overrides that name the same dimensions.
type overrideGroup struct {
	names   []string                    // the dimensions
	longest map[string]*policy.Override // by values of the dimensions, the override that ends last
}

// hiddenOverrides returns a note about each override that never applies, because an earlier one
// matches all of its keys and ends no sooner. Overrides of addresses are tried before those
// without an address, so the latter never hide them.
func hiddenOverrides(p *policy.Definition) (notes []string) {
	var groups []*overrideGroup
	for i := range p.Overrides {
		o := &p.Overrides[i]
		if by := findHiding(groups, p, o); by != nil {
			const note = "line %d: the override of %s for %s never applies, " +
				"because that of line %d for all %s stands first; put it above line %d"
			here, first := pairsText(o.For, answer.Shown), pairsText(by.For, answer.Shown)
			notes = append(notes, fmt.Sprintf(note, o.Line, p.Name, here, by.Line, first, by.Line))
			continue
		}
		groups = addOverride(groups, o)
	}
	return notes
}

// findHiding returns an earlier override that applies wherever and as long as o would, or nil.
func findHiding(
	groups []*overrideGroup, p *policy.Definition, o *policy.Override,
) *policy.Override {
	for _, g := range groups {
		precedes := func(d policy.Dimension) bool {
			return p.Addresses[d.Name] > 0 && !slices.Contains(g.names, d.Name)
		}
		if slices.ContainsFunc(o.For, precedes) {
			continue
		}
		if values, ok := g.values(o); ok {
			if before := g.longest[values]; before != nil && !endsBefore(before, o) {
				return before
			}
		}
	}
	return nil
}

// addOverride adds o to the group of its dimensions, and returns the groups. No override of the
// groups hides o.
func addOverride(groups []*overrideGroup, o *policy.Override) []*overrideGroup {
	for _, g := range groups {
		if values, ok := g.values(o); ok && len(g.names) == len(o.For) {
			g.longest[values] = o
			return groups
		}
	}
	g := &overrideGroup{longest: map[string]*policy.Override{}}
	for _, d := range o.For {
		g.names = append(g.names, d.Name)
	}
	values, _ := g.values(o)
	g.longest[values] = o
	return append(groups, g)
}

// values joins the values that o has for the dimensions of the group. It returns false if o
// lacks one of the dimensions.
func (g *overrideGroup) values(o *policy.Override) (string, bool) {
	text := ""
	for _, name := range g.names {
		i := slices.IndexFunc(o.For, func(d policy.Dimension) bool { return d.Name == name })
		if i < 0 {
			return "", false
		}
		text += fmt.Sprintf("%d:%s", len(o.For[i].Value), o.For[i].Value)
	}
	return text, true
}

// endsBefore reports whether a ends before b.
func endsBefore(a, b *policy.Override) bool {
	return !a.Until.IsZero() && (b.Until.IsZero() || a.Until.Before(b.Until))
}
