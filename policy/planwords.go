package policy

import (
	"cmp"
	"slices"

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
