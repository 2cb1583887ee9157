package policy

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

// asked is the cost of as many units as are asked for.
const requestedUnits = "n"

func (c *checker) deferCosts(d *policyBuilder, _, value *strictyaml.Node) error {
	d.costs = value
	return nil
}

// completeCosts reads what an attempt takes of each limit, once the limits are known.
func (c *checker) completeCosts(d *policyBuilder) error {
	if d.costs == nil {
		return nil
	}
	if d.costs.Kind != strictyaml.Map || d.costs.Len() == 0 {
		return c.fail(d.costs.Offset, "write {LIMIT: 1} with one of "+d.limitNames(), "costs: has no limits with a number, or n")
	}
	for name, value := range d.costs.Pairs() {
		i := d.policy.limitNamed(name.Text)
		if i < 0 {
			return c.fail(name.Offset, "its limits are "+d.limitNames(), "%s is not a limit of the policy", clip(name.Text))
		}
		if value.Kind == strictyaml.Scalar && value.Text == requestedUnits {
			continue
		}
		n, problem := parseNumber(value.Text)
		if value.Kind != strictyaml.Scalar || problem != "" || n == 0 || n > weir.MaxUnits {
			return c.fail(value.Offset, "use 1 or more, whatever is asked for, or n for as many as are asked for", "%s is not a cost", c.quote(value))
		}
		if d.policy.Mode == weir.Partial {
			return c.fail(value.Offset, "write batch: whole, or n", "batch: partial grants parts of what is asked for, and a cost of its own has none")
		}
		d.policy.Limits[i].Cost = n
	}
	return nil
}
