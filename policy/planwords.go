package policy

import (
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

func (c *checker) setShadow(d *policyBuilder, _, value *strictyaml.Node) bool {
	if value.Type() != "boolean" {
		return c.fail(value.Offset, "write shadow: true, or remove the word", "shadow: %s is not true or false", c.quote(value))
	}
	d.policy.Shadow = value.Text[0]|0x20 == 't'
	return true
}

func (c *checker) setCount(d *policyBuilder, key, value *strictyaml.Node) bool {
	d.count = value
	i, ok := c.choice(key, value, countValues)
	d.policy.ChargeOn = ChargeOn(i)
	return ok
}

func (c *checker) setPlanBy(d *policyBuilder, key, value *strictyaml.Node) bool {
	d.deferred.planBy = key
	return c.text(key, value, func(at int, word string) *fault {
		if !weir.ValidName(word) {
			return faultf(at, useName, "%s cannot be the name of a key", clip(word))
		}
		d.policy.TierBy = word
		return nil
	})
}

func (c *checker) deferPlans(d *policyBuilder, key, value *strictyaml.Node) bool {
	d.deferred.plansWord, d.deferred.plans = key, value
	return true
}

// readPlans reads the plans of a policy.
func (c *checker) readPlans(d *policyBuilder) bool {
	plans := d.deferred.plans
	if plans == nil {
		if by := d.deferred.planBy; by != nil {
			return c.fail(by.Offset, "add plans: with a name and limits for each, or remove plan-by", "plan-by has no plans to choose from")
		}
		return true
	}
	if plans.Kind != strictyaml.Map || plans.Len() == 0 {
		return c.fail(plans.Offset, "write the name of each plan, without a dash, and its limits after or below it", "plans: has no names with limits")
	}
	ok := true
	d.planNames = map[string]bool{}
	for name, value := range plans.Pairs() {
		d.planNames[name.Text] = true
		if !weir.ValidName(name.Text) {
			ok = c.fail(name.Offset, useName, "%s cannot be the name of a plan", clip(name.Text))
			continue
		}
		changes, read := c.changes(d, value)
		ok = read && ok
		d.policy.Tiers = append(d.policy.Tiers, Tier{Name: name.Text, Changes: changes, Line: name.Line})
	}
	return ok
}

// checkPlansUsed rejects plans that neither plan-by nor an override selects.
func (c *checker) checkPlansUsed(d *policyBuilder) bool {
	byOverride := func(o Override) bool { return o.Tier != "" }
	if d.deferred.plans == nil || d.deferred.planBy != nil || slices.ContainsFunc(d.policy.Overrides, byOverride) {
		return true
	}
	return c.fail(d.deferred.plansWord.Offset, "add plan-by: with the key whose value names the plan, such as plan-by: tier", "nothing selects one of the plans")
}

// changes reads changes to the limits of a policy: a single limit, or a map of limits by
// name.
func (c *checker) changes(d *policyBuilder, value *strictyaml.Node) ([]Change, bool) {
	if value.Kind != strictyaml.Map {
		return c.onlyChange(d, value)
	}
	if value.Len() == 0 {
		return nil, c.fail(value.Offset, "name the limits that change, or remove it", "no limit changes")
	}
	var all []Change
	ok := true
	for name, limit := range value.Pairs() {
		i := d.policy.limitNamed(name.Text)
		if i < 0 {
			ok = c.fail(name.Offset, c.nextName(name.Text, d.limitNames(), "its limits are "), "%s is not a limit of the policy", clip(name.Text))
			continue
		}
		change, read := c.change(d, i, limit)
		ok = read && ok
		all = append(all, change)
	}
	return all, ok
}

// onlyChange reads the change of a policy with one limit.
func (c *checker) onlyChange(d *policyBuilder, value *strictyaml.Node) ([]Change, bool) {
	if len(d.policy.Limits) > 1 && value.Kind == strictyaml.Scalar {
		return nil, c.fail(value.Offset, "write {NAME: LIMIT} with one of "+listed(d.limitNames()), "a limit without a name, in a policy with several")
	}
	change, ok := c.change(d, 0, value)
	return []Change{change}, ok
}

// change reads new numbers for limit i of a policy, which keeps its window, kind, keys
// and block.
func (c *checker) change(d *policyBuilder, i int, value *strictyaml.Node) (Change, bool) {
	base := d.policy.Limits[i]
	l, ok := c.limit(value)
	if !ok {
		return Change{}, false
	}
	l.at.name = value.Offset
	if len(l.limit.By) > 0 && !slices.Equal(l.limit.By, base.By) {
		return Change{}, c.fail(l.at.keys[0], "leave the keys out: those of the limit stay", "other keys would be another history")
	}
	if l.hasWindow && l.limit.Window != base.Window {
		return Change{}, c.fail(l.at.window, "write per "+formatWindow(base.Window)+
			", or add a limit with that window to the policy, unlimited where it does not apply", "the window must stay, because all plans share one history")
	}
	if l.block > 0 && l.block != d.policy.BlockOf(i) {
		return Change{}, c.fail(l.at.block, "leave the block out: that of the limit stays", "plans and overrides have no blocks of their own")
	}
	if (l.hasKind || l.limit.Kind != weir.Rolling) && l.limit.Kind != base.Kind {
		return Change{}, c.fail(l.at.kind, "leave it out: the limit's windows keep their kind", "windows that begin at other instants would need another history")
	}
	l.limit.Window, l.limit.Kind = base.Window, base.Kind
	if f := l.validate(); f != nil {
		return Change{}, c.accept(f)
	}
	unit := l.unit
	if unit == "" {
		unit = d.policy.Units[i]
	}
	return Change{Limit: i, Max: l.limit.Max, MinInterval: l.limit.MinInterval, Unit: unit}, true
}

// limitNames returns the names of the policy's limits.
func (d *policyBuilder) limitNames() []string {
	var all []string
	for _, l := range d.policy.Limits {
		all = append(all, l.Name)
	}
	return all
}
