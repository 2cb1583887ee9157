package policy

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/yamlnode"
)

func (c *checker) setAbout(d *policyBuilder, _, value *yamlnode.Node) bool {
	if value.Type() != "text" {
		return c.fail(value.Offset, "write a sentence, in quotes if necessary", "about: is %s, not text", describeKind(value))
	}
	d.policy.About = strings.TrimSpace(value.Text)
	return true
}

func (c *checker) setLimit(d *policyBuilder, key, value *yamlnode.Node) bool {
	return c.onlyLimit(d, key) && c.addLimit(d, onlyLimitName, key.Offset, value)
}

func (c *checker) setLimits(d *policyBuilder, key, value *yamlnode.Node) bool {
	if !c.onlyLimit(d, key) {
		return false
	}
	d.rejected = true
	if value.Kind != yamlnode.Map || value.Len() == 0 {
		return c.fail(value.Offset, "write the name of each limit, without a dash, and the limit after it; or write limit: for a single one", "limits: is %s, not a map of names to limits", describeKind(value))
	}
	ok := true
	for name, limit := range value.Pairs() {
		if !weir.ValidName(name.Text) {
			ok = c.fail(name.Offset, useName, "%s cannot be the name of a limit", clip(name.Text))
			continue
		}
		ok = c.addLimit(d, name.Text, name.Offset, limit) && ok
	}
	d.rejected = !ok
	return ok
}

// onlyLimit rejects limit and limits in one policy.
func (c *checker) onlyLimit(d *policyBuilder, key *yamlnode.Node) bool {
	if d.limitWord != nil {
		return c.fail(key.Offset, "move all limits below limits:, each with a name", "limit and limits in one policy")
	}
	d.limitWord = key
	return true
}

func (c *checker) setCells(d *policyBuilder, _, value *yamlnode.Node) bool {
	n, problem := parseNumber(value.Text)
	if value.Kind != yamlnode.Scalar || problem != "" || n > maxCells {
		return c.fail(value.Offset, "use 0 for exact windows, or a whole number such as 60 up to "+formatNumber(maxCells), "%s is not a number of cells", c.quote(value))
	}
	d.cells, d.cellsAt = int(n), value.Offset
	return true
}

func (d *policyBuilder) setWhenStoreIsDown(_, i int) {
	d.policy.WhenStoreIsDown = engine.OutageDeny + engine.Outage(i)
}

// faultOf returns the fault of an error of weir's own check, at the limit that it names.
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
