package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/yamlnode"
)

func (c *checker) setPlanBy(d *policyBuilder, key, value *yamlnode.Node) bool {
	d.planBy = key
	if !c.isText(key, value) {
		return false
	}
	return c.scalar(key, value, func(at int, word string) *fault {
		if !weir.ValidName(word) {
			return faultf(at, useName, "%s cannot be the name of a key", clip(word))
		}
		d.policy.PlanBy = word
		return nil
	})
}

// readPlans reads the plans of a policy.
func (c *checker) readPlans(d *policyBuilder) bool {
	plans := d.plans.value
	if plans == nil {
		if by := d.planBy; by != nil {
			return c.fail(by.Offset, "add plans: with a name and limits for each, or remove plan-by", "plan-by has no plans to choose from")
		}
		return true
	}
	if plans.Kind != yamlnode.Map || plans.Len() == 0 {
		return c.fail(plans.Offset, "write the name of each plan, without a dash, and its limits after or below it", "plans: has no names with limits")
	}
	ok := true
	d.planNames = make(map[string]bool, plans.Len())
	d.policy.Plans = make([]Plan, 0, plans.Len())
	for name, value := range plans.Pairs() {
		d.planNames[name.Text] = true
		if !weir.ValidName(name.Text) {
			ok = c.fail(name.Offset, useName, "%s cannot be the name of a plan", clip(name.Text))
			continue
		}
		changes, read := c.changes(d, value)
		ok = read && ok
		d.policy.Plans = append(d.policy.Plans, Plan{Name: name.Text, Changes: changes, Line: name.Line})
	}
	return ok
}

// checkPlansUsed rejects plans that neither plan-by nor an override selects.
func (c *checker) checkPlansUsed(d *policyBuilder) bool {
	byOverride := func(o Override) bool { return o.Plan != "" }
	if d.plans.key == nil || d.planBy != nil || slices.ContainsFunc(d.policy.Overrides, byOverride) {
		return true
	}
	return c.fail(d.plans.key.Offset, "add plan-by: with the key whose value names the plan, such as plan-by: plan", "nothing selects one of the plans")
}

// changes reads changes to the limits of a policy: a single limit, or a map of limits by
// name.
func (c *checker) changes(d *policyBuilder, value *yamlnode.Node) ([]Change, bool) {
	if value.Kind != yamlnode.Map {
		return c.onlyChange(d, value)
	}
	if value.Len() == 0 {
		return nil, c.fail(value.Offset, "name the limits that change, or remove it", "no limit changes")
	}
	var all []Change
	ok := true
	for name, limit := range value.Pairs() {
		i, found := c.limitNamed(d, name)
		if !found {
			ok = false
			continue
		}
		change, read := c.change(d, i, limit)
		ok = read && ok
		all = append(all, change)
	}
	return all, ok
}

// onlyChange reads the change of a policy with one limit.
func (c *checker) onlyChange(d *policyBuilder, value *yamlnode.Node) ([]Change, bool) {
	if len(d.policy.Limits) > 1 && value.Kind == yamlnode.Scalar {
		return nil, c.fail(value.Offset, "write {NAME: LIMIT} with one of "+listed(d.limitNames()), "a limit without a name, in a policy with several")
	}
	change, ok := c.change(d, 0, value)
	return []Change{change}, ok
}

// change reads new numbers for limit i of a policy, which keeps its window, kind, keys
// and block.
func (c *checker) change(d *policyBuilder, i int, value *yamlnode.Node) (Change, bool) {
	l, ok := c.limit(value)
	if !ok {
		return Change{}, false
	}
	l.at.name = value.Offset
	if !c.accept(l.fit(d.policy, i)) {
		return Change{}, false
	}
	return Change{Limit: i, Max: l.limit.Max, Burst: l.limit.Burst, MinInterval: l.limit.MinInterval, Unit: cmp.Or(l.unit, d.policy.Units[i])}, true
}

// fit completes a change by limit i of the policy, or returns the first part that does not fit.
func (d *limitBuilder) fit(p *Definition, i int) *fault {
	base := &p.Limits[i]
	if f := d.inherit(base); f != nil {
		return f
	}
	if f := d.complete(); f != nil {
		return f
	}
	switch {
	case len(d.limit.By) > 0 && !slices.Equal(d.limit.By, base.By):
		return faultf(d.at.keys[0], "leave the keys out: those of the limit stay", "other keys would be another history")
	case d.block > 0 && d.block != p.BlockOf(i):
		return faultf(d.at.block, "leave the block out: that of the limit stays", "plans and overrides have no blocks of their own")
	case d.warn > 0 && d.warn != p.WarnAt(i):
		return faultf(d.at.warn, "leave it out: that of the limit stays", "plans and overrides have no warning of their own")
	}
	if f := d.sameWindows(base); f != nil {
		return f
	}
	d.limit.Window, d.limit.MaxHold, d.limit.Period, d.limit.Zone, d.limit.Anchor = base.Window, base.MaxHold, base.Period, base.Zone, base.Anchor
	return d.validate()
}

// sameWindows returns a fault if a change of base selects another kind or other windows.
func (d *limitBuilder) sameWindows(base *weir.Limit) *fault {
	const shared = "because all plans share one history"
	switch l := &d.limit; {
	case d.hasWindow && base.Kind != weir.Concurrency && l.Window != base.Window:
		return faultf(d.at.window, "write"+windowSentence(base)+
			", or add a limit with that window to the policy, unlimited where it does not apply", "the window must stay, %s", shared)
	case l.Kind == weir.Bucket && base.Kind != weir.Bucket:
		return faultf(d.at.burst, "leave it out: the limit has no burst", "a bucket would need another history")
	case l.Kind != base.Kind && (l.Kind == weir.Concurrency || base.Kind == weir.Concurrency || base.Kind == weir.Bucket):
		return faultf(d.at.kind, "write it like the limit itself: "+sentence(*base, "", 0), "another kind of limit would need another history")
	case l.Kind != base.Kind:
		return faultf(d.at.kind, "leave it out: the limit's windows keep their kind", "windows that begin at other instants would need another history")
	case d.form.hasHold && l.MaxHold != base.MaxHold:
		return faultf(d.at.hold, "write for at most "+FormatDuration(base.MaxHold), "the time of a hold must stay, %s", shared)
	case l.Zone != "" && l.Zone != base.Zone:
		return faultf(d.at.zone, "leave it out: the time zone of the limit stays", "the time zone must stay, %s", shared)
	case d.form.anchor != weir.NoPeriod && l.Anchor != base.Anchor:
		return faultf(d.at.from, "leave it out: the limit's windows begin as before", "the first day must stay, %s", shared)
	}
	return nil
}

// limitNames returns the names of the policy's limits.
func (d *policyBuilder) limitNames() []string {
	return namesOf(d.policy.Limits, func(l weir.Limit) string { return l.Name })
}

// limitNamed returns the index of the limit with the name that a node gives.
func (c *checker) limitNamed(d *policyBuilder, name *yamlnode.Node) (i int, ok bool) {
	if i = d.policy.limitNamed(name.Text); i < 0 {
		return i, c.fail(name.Offset, c.nextName(name.Text, d.limitNames(), "its limits are "), "%s is not a limit of the policy", clip(name.Text))
	}
	return i, true
}

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
