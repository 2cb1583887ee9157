package policy

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

func (c *checker) setAbout(d *policyBuilder, _, value *strictyaml.Node) error {
	if value.Type() != "text" {
		return c.fail(value.Offset, "write a sentence, in quotes if need be", "about: is %s, not text", describeKind(value))
	}
	d.policy.About = strings.TrimSpace(value.Text)
	return nil
}

func (c *checker) setLimit(d *policyBuilder, key, value *strictyaml.Node) error {
	if err := c.onlyLimit(d, key); err != nil {
		return err
	}
	return c.addLimit(d, "limit", key.Offset, value)
}

func (c *checker) setLimits(d *policyBuilder, key, value *strictyaml.Node) error {
	if err := c.onlyLimit(d, key); err != nil {
		return err
	}
	if value.Kind != strictyaml.Map || value.Len() == 0 {
		return c.fail(value.Offset, "give each limit a name below limits:, or write limit: for a single one", "limits: has no names with limits")
	}
	for name, limit := range value.Pairs() {
		if !weir.ValidName(name.Text) {
			return c.fail(name.Offset, useName, "%s cannot be the name of a limit", clip(name.Text))
		}
		if err := c.addLimit(d, name.Text, name.Offset, limit); err != nil {
			return err
		}
	}
	return nil
}

// onlyLimit refuses limit and limits in one policy.
func (c *checker) onlyLimit(d *policyBuilder, key *strictyaml.Node) error {
	if d.limitWord != nil {
		return c.fail(key.Offset, "move all limits below limits:, each with a name", "limit and limits in one policy")
	}
	d.limitWord = key
	return nil
}

func (c *checker) setDenied(d *policyBuilder, key, value *strictyaml.Node) error {
	d.denied = value
	_, err := c.choice(key, value, deniedValues)
	return err
}

func (c *checker) setBatch(d *policyBuilder, key, value *strictyaml.Node) error {
	d.batch = value
	_, err := c.choice(key, value, batchValues)
	return err
}

func (c *checker) setCells(d *policyBuilder, _, value *strictyaml.Node) error {
	n, problem := parseNumber(value.Text)
	if value.Kind != strictyaml.Scalar || problem != "" || n > maxCells {
		return c.fail(value.Offset, "use 0 for exact windows, or a whole number such as 60 up to "+formatNumber(maxCells), "%s is not a number of cells", c.quote(value))
	}
	d.cells, d.cellsAt = int(n), value.Offset
	return nil
}

func (c *checker) setWhenStoreIsDown(d *policyBuilder, key, value *strictyaml.Node) error {
	i, err := c.choice(key, value, storeDownValues)
	d.policy.WhenStoreIsDown = fallback.Mode(i)
	return err
}

// verdict says where in the file weir's own check of the policy points.
func (d *policyBuilder) faultOf(err error, name int) *fault {
	e := asPolicyError(err)
	i := slices.IndexFunc(d.limits, func(l *limitBuilder) bool { return e.Limit != "" && l.limit.Name == e.Limit })
	if i >= 0 {
		return d.limits[i].faultOf(e)
	}
	at := name
	if e.Field == "Limits" {
		at = d.limitWord.Offset
	}
	return faultf(at, "write a policy for each group of limits that must be decided together", "%s", e.Problem)
}
