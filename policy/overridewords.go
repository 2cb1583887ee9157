package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// overrideBuilder is an override while the checker reads it.
type overrideBuilder struct {
	override   Override
	limitWord  *yamlnode.Node // limit or limits, the first of them
	limits     *yamlnode.Node // its value
	planAt     int            // the offset of plan's value, 0 without one or after a fault
	dimensions []string
}

// readOverrides reads the overrides of a policy.
func (c *checker) readOverrides(d *policyBuilder, dimensions []string) bool {
	overrides := d.overrides.value
	if overrides == nil {
		return true
	}
	if overrides.Kind != yamlnode.List || overrides.Len() == 0 {
		return c.fail(overrides.Offset, "write a list, each item with for:, a limit or a plan, until: and why:", "overrides: is %s, not a list of them", describeKind(overrides))
	}
	if len(dimensions) == 0 {
		return c.fail(overrides.Offset, "count by a key, as in 10 per minute per user, or change the limit itself", "all callers share the policy's limits, so no key can have others")
	}
	lasting := map[string]Override{}
	ok := true
	for item := range overrides.Items() {
		o, read := c.override(d, item, dimensions)
		if !read {
			ok = false
			continue
		}
		keys := fmt.Sprintf("%q", o.sortedFor())
		if before, found := lasting[keys]; found && (before.Until.IsZero() || !o.Until.IsZero() && !o.Until.After(before.Until)) {
			ok = c.fail(item.Offset, "remove one of the two, or put the one that ends first above the other",
				"it never applies: the override of line %d is for the same keys and ends no sooner", before.Line)
		}
		lasting[keys] = o
		d.policy.Overrides = append(d.policy.Overrides, o)
	}
	return ok
}

func (c *checker) override(d *policyBuilder, item *yamlnode.Node, dimensions []string) (Override, bool) {
	if item.Kind != yamlnode.Map {
		return Override{}, c.fail(item.Offset, "write for: {key: value}, a limit or a plan, until: and why:", "%s in place of an override", describeKind(item))
	}
	v := overrideBuilder{override: Override{Line: item.Line}, dimensions: dimensions}
	ok := apply(c, overrideWords, anOverride, item, &v)
	missing := ""
	switch {
	case !has(item, "for"):
		missing = "for: {" + dimensions[0] + ": VALUE}"
	case v.limitWord == nil && !has(item, "plan"):
		missing = "limit: 10 per minute, limits: or plan:"
	case !has(item, "until"):
		missing = "until: 2026-12-31, or until: forever"
	case !has(item, "why"):
		missing = "why: with the reason, in a sentence"
	}
	if missing != "" && allKnown(overrideWords, item) { // an unknown word is probably the missing one
		ok = c.fail(item.Offset, "add "+missing, "the override is incomplete")
	}
	if v.planAt > 0 && !d.planNames[v.override.Plan] {
		ok = c.fail(v.planAt, c.nextPlan(d, v.override.Plan), "%s is not a plan of the policy", clip(v.override.Plan))
	}
	if v.limitWord != nil {
		changes, read := c.overrideLimits(d, &v)
		v.override.Changes, ok = changes, read && ok
	}
	return v.override, ok
}

// overrideLimits reads limit: as a line or in its long form, limits: as a map.
func (c *checker) overrideLimits(d *policyBuilder, v *overrideBuilder) ([]Change, bool) {
	single := v.limitWord.Text == "limit"
	switch {
	case single && len(d.policy.Limits) > 1:
		return nil, c.fail(v.limitWord.Offset, "write limits: {NAME: LIMIT} with one of "+listed(d.limitNames()), "a limit without a name, in a policy with several")
	case single:
		change, ok := c.change(d, 0, v.limits)
		return []Change{change}, ok
	case v.limits.Kind != yamlnode.Map:
		return nil, c.fail(v.limits.Offset, "write limits: {NAME: LIMIT}", "limits: is %s, not a map", describeKind(v.limits))
	}
	return c.changes(d, v.limits)
}

func (c *checker) setFor(v *overrideBuilder, key, value *yamlnode.Node) bool {
	if value.Kind != yamlnode.Map || value.Len() == 0 {
		return c.fail(value.Offset, "write for: {"+v.dimensions[0]+": VALUE}", "for: is %s, not a map of keys and values", describeKind(value))
	}
	ok := true
	for name, text := range value.Pairs() {
		if !slices.Contains(v.dimensions, name.Text) {
			ok = c.fail(name.Offset, c.nextName(name.Text, v.dimensions, "it counts by "), "%s is not a key the policy counts by", clip(name.Text))
			continue
		}
		ok = c.keyValue(name, text) && ok
		v.override.For = append(v.override.For, Dimension{name.Text, text.Text})
	}
	return ok
}

// keyValue checks the value of a key: any text of at most weir.MaxValueBytes.
func (c *checker) keyValue(name, value *yamlnode.Node) bool {
	if value.Type() != "text" {
		return c.fail(value.Offset, "put it in quotes: values of keys are text", "%s: %s is %s, not text", name.Text, c.quote(value), describeKind(value))
	}
	if len(value.Text) > weir.MaxValueBytes {
		return c.fail(value.Offset, fmt.Sprintf("use at most %d bytes", weir.MaxValueBytes), "the value of %s is too long", name.Text)
	}
	return true
}

func (c *checker) setOverrideLimit(v *overrideBuilder, key, value *yamlnode.Node) bool {
	if v.limitWord != nil {
		return c.fail(key.Offset, "move all limits below limits:, each with its name", "limit and limits in one override")
	}
	v.limitWord, v.limits = key, value
	return true
}

func (v *overrideBuilder) setPlan(at int, word string) *fault {
	v.planAt, v.override.Plan = at, word
	return nil
}

const forever = "forever"

func (v *overrideBuilder) setUntil(at int, word string) *fault {
	if word == forever {
		return nil
	}
	end, ok := parseEnd(word)
	if !ok {
		if f := missingZone(at, word); f != nil {
			return f
		}
		return faultf(at, "write a day such as 2026-12-31, which lasts to its end in UTC, an instant such as 2026-12-31T18:00:00Z, or forever", "%s is not a day", clip(word))
	}
	v.override.Until = end
	return nil
}

// parseEnd reads an instant of RFC 3339, or a day, for which it returns the day's end.
func parseEnd(s string) (time.Time, bool) {
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return day.AddDate(0, 0, 1), inRange(day)
	}
	return parseInstant(s)
}

// parseInstant reads an instant of RFC 3339, in whole seconds and with Z or an
// offset, as 2026-12-31T18:00:00Z or 2026-12-31T19:00:00+01:00.
func parseInstant(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	exact := s == t.Format("2006-01-02T15:04:05Z") || s == t.Format("2006-01-02T15:04:05-07:00")
	return t.UTC(), err == nil && exact && inRange(t)
}

// missingZone returns the fault of an instant that lacks only its time zone, or nil.
func missingZone(at int, s string) *fault {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return faultf(at, "write "+t.Format("2006-01-02T15:04:05Z")+" for UTC, or an offset such as +01:00 in place of the Z", "%s has no time zone", clip(s))
		}
	}
	return nil
}

// nextPlan returns the next step for a name that is no plan.
func (c *checker) nextPlan(d *policyBuilder, name string) string {
	if len(d.policy.Plans) == 0 {
		return "add plans: with a name and limits for each, or write limit: in place of plan:"
	}
	return c.nextName(name, namesOf(d.policy.Plans, func(t Plan) string { return t.Name }), "its plans are ")
}

// inRange reports whether weir can decide at an instant, with a margin.
func inRange(t time.Time) bool { return t.Year() >= 1971 && t.Year() <= 2199 }

func (c *checker) setWhy(v *overrideBuilder, _, value *yamlnode.Node) bool {
	v.override.Why = strings.TrimSpace(value.Text)
	if value.Type() != "text" || v.override.Why == "" {
		return c.fail(value.Offset, "write a sentence from which the next reader can judge whether to remove it", "why: has no reason")
	}
	return true
}
