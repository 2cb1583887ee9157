package policy

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// requestedUnits is the cost of a limit that is charged the units of the request.
const requestedUnits = "n"

func (c *checker) deferCosts(d *policyBuilder, _, value *yamlnode.Node) bool {
	d.deferred.costs = value
	return true
}

// readCosts reads the units that an attempt takes of each limit.
func (c *checker) readCosts(d *policyBuilder) bool {
	costs := d.deferred.costs
	if costs == nil {
		return true
	}
	if costs.Kind != yamlnode.Map || costs.Len() == 0 {
		return c.fail(costs.Offset, "write {LIMIT: 1} with one of "+listed(d.limitNames()), "costs: has no limits with a number, or n")
	}
	ok := true
	for name, value := range costs.Pairs() {
		i, found := c.limitNamed(d, name)
		if !found {
			ok = false
			continue
		}
		if value.Kind == yamlnode.Scalar && value.Text == requestedUnits {
			continue
		}
		n, problem := parseNumber(value.Text)
		if value.Kind != yamlnode.Scalar || problem != "" || n == 0 || n > weir.MaxUnits {
			ok = c.fail(value.Offset, "use 1 or more for a fixed cost, or n for the units requested", "%s is not a cost", c.quote(value))
			continue
		}
		if d.policy.Mode == weir.Partial {
			ok = c.fail(value.Offset, "write batch: whole, or n", "batch: partial grants parts of a request, and a fixed cost has no parts")
			continue
		}
		d.policy.Limits[i].Cost = n
	}
	return ok
}
