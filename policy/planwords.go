package policy

import (
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

func (c *checker) setShadow(d *policyBuilder, _, value *strictyaml.Node) error {
	if value.Type() != "boolean" {
		return c.fail(value.Offset, "write shadow: true, or remove the word", "shadow: %s is not true or false", c.quote(value))
	}
	d.policy.Shadow = value.Text[0]|0x20 == 't'
	return nil
}

func (c *checker) setCount(d *policyBuilder, key, value *strictyaml.Node) error {
	d.count = value
	i, err := c.choice(key, value, countValues)
	d.policy.ChargeOn = ChargeOn(i)
	return err
}

func (c *checker) setPlanBy(d *policyBuilder, key, value *strictyaml.Node) error {
	d.planBy = key
	return c.text(key, value, func(at int, word string) *fault {
		if !weir.ValidName(word) {
			return faultf(at, useName, "%s cannot be the name of a key", clip(word))
		}
		d.policy.TierBy = word
		return nil
	})
}

func (c *checker) deferPlans(d *policyBuilder, key, value *strictyaml.Node) error {
	d.plansWord, d.plans = key, value
	return nil
}

// completePlans reads the plans, once the limits that they vary are known.
func (c *checker) completePlans(d *policyBuilder) error {
	if d.plans == nil {
		if d.planBy != nil {
			return c.fail(d.planBy.Offset, "add plans: with a name and limits for each, or remove plan-by", "there are no plans to choose")
		}
		return nil
	}
	if d.plans.Kind != strictyaml.Map || d.plans.Len() == 0 {
		return c.fail(d.plans.Offset, "give each plan a name and, behind or below it, its limits", "plans: has no names with limits")
	}
	d.planNames = map[string]bool{}
	for name, value := range d.plans.Pairs() {
		d.planNames[name.Text] = true
		if !weir.ValidName(name.Text) {
			return c.fail(name.Offset, useName, "%s cannot be the name of a plan", clip(name.Text))
		}
		changes, err := c.changes(d, value)
		if err != nil {
			return err
		}
		d.policy.Tiers = append(d.policy.Tiers, Tier{Name: name.Text, Changes: changes, Line: name.Line})
	}
	return nil
}

// plansAreChosen refuses plans that nothing chooses.
func (c *checker) checkPlansUsed(d *policyBuilder) error {
	byOverride := func(o Override) bool { return o.Tier != "" }
	if d.plans == nil || d.policy.TierBy != "" || slices.ContainsFunc(d.policy.Overrides, byOverride) {
		return nil
	}
	return c.fail(d.plansWord.Offset, "add plan-by: with the key whose value names the plan, such as plan-by: tier", "nothing chooses one of the plans")
}

// changes reads other numbers for the limits of a policy: a single limit, or a map
// of limits by name.
func (c *checker) changes(d *policyBuilder, value *strictyaml.Node) ([]Change, error) {
	if value.Kind != strictyaml.Map {
		return c.onlyChange(d, value)
	}
	if value.Len() == 0 {
		return nil, c.fail(value.Offset, "name the limits that are other, or remove it", "no limit is other")
	}
	var all []Change
	for name, limit := range value.Pairs() {
		i := slices.IndexFunc(d.policy.Limits, func(l weir.Limit) bool { return l.Name == name.Text })
		if i < 0 {
			return nil, c.fail(name.Offset, "its limits are "+d.limitNames(), "%s is not a limit of the policy", clip(name.Text))
		}
		change, err := c.change(d, i, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, change)
	}
	return all, nil
}

// onlyChange reads a limit for a policy that has only one.
func (c *checker) onlyChange(d *policyBuilder, value *strictyaml.Node) ([]Change, error) {
	if len(d.policy.Limits) > 1 && value.Kind == strictyaml.Scalar {
		return nil, c.fail(value.Offset, "write {NAME: LIMIT} with one of "+d.limitNames(), "a limit without a name, where the policy has several")
	}
	change, err := c.change(d, 0, value)
	return []Change{change}, err
}

// change reads other numbers for limit i. Its keys may be left out.
func (c *checker) change(d *policyBuilder, i int, value *strictyaml.Node) (Change, error) {
	base := d.policy.Limits[i]
	l, err := c.limit(value)
	if err != nil {
		return Change{}, err
	}
	l.at.name = value.Offset
	if len(l.limit.By) > 0 && !slices.Equal(l.limit.By, base.By) {
		return Change{}, c.fail(l.at.keys[0], "leave the keys out: those of the limit stay", "other keys would be another history")
	}
	if l.hasWindow && l.limit.Window != base.Window {
		return Change{}, c.fail(l.at.window, "write per "+formatWindow(base.Window)+
			", or add a limit of that window to the policy, unlimited where it is not meant", "the window must stay: all plans share what it remembers")
	}
	if l.block > 0 && l.block != d.policy.BlockOf(i) {
		return Change{}, c.fail(l.at.block, "leave the block out: that of the limit stays", "plans and overrides have no blocks of their own")
	}
	if (l.hasKind || l.limit.Kind != weir.Rolling) && l.limit.Kind != base.Kind {
		return Change{}, c.fail(l.at.kind, "leave it out: the limit's windows stay as they are", "windows that begin elsewhere would remember something else")
	}
	l.limit.Window, l.limit.Kind = base.Window, base.Kind
	if f := l.validate(); f != nil {
		return Change{}, c.fault(f)
	}
	return Change{Limit: i, Max: l.limit.Max, MinInterval: l.limit.MinInterval, Unit: l.unitOr(d.policy.Units[i])}, nil
}

// unitOr is the limit's word for a unit, or the one that it replaces.
func (d *limitBuilder) unitOr(other string) string {
	if d.unit == "" {
		return other
	}
	return d.unit
}

// limitNames lists the limits of the policy.
func (d *policyBuilder) limitNames() string {
	var all []string
	for _, l := range d.policy.Limits {
		all = append(all, l.Name)
	}
	return listed(all)
}
