package policy

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// policyBuilder is a policy while the checker reads it.
type policyBuilder struct {
	policy      *Definition
	limits      []*limitBuilder
	limitWord   *yamlnode.Node // limit or limits, the first of them
	rejected    bool           // a limit has a fault
	cells, warn int            // warn: percent of the limits without a share of their own; 0 = none
	planBy      *yamlnode.Node // the word
	planNames   map[string]bool

	countsDenied, partial               bool // denied: counted, batch: partial
	deniedAt, batchAt, countAt, cellsAt int  // the offsets of values
	plans, overrides, costs             pair // read after the limits
}

// policy reads a policy. It goes on after a fault as long as later faults are not
// consequences of it.
func (c *checker) policy(name, words *yamlnode.Node) (*Definition, bool) {
	if !weir.ValidName(name.Text) {
		return nil, c.fail(name.Offset, useName, "%s cannot be the name of a policy", clip(name.Text))
	}
	if words.Kind != yamlnode.Map {
		next := "write limit: 10 per minute on the line below, indented"
		if words.Kind == yamlnode.List {
			next = "write the words of the policy without dashes, such as limit: 10 per minute"
		} else if strings.Contains(words.Text, ":") {
			next = "put a space after the colon"
		}
		if words.Null() {
			return nil, c.fail(words.Offset, next, "policy %s is empty", clip(name.Text))
		}
		return nil, c.fail(words.Offset, next, "%s in place of the words of policy %s", describeKind(words), clip(name.Text))
	}
	d := policyBuilder{policy: &Definition{Name: name.Text, Line: name.Line, WhenStoreIsDown: engine.OutageDeny, file: c.file}}
	ok := apply(c, policyWords, aPolicy, words, &d)
	if d.limitWord == nil {
		return nil, ok && c.fail(name.Offset, "add limit: 10 per minute, or limits: with a name for each", "policy %s has no limit", clip(name.Text))
	}
	if d.rejected {
		return nil, false
	}
	return d.policy, c.complete(&d, name) && ok
}

// complete checks the words of a policy together, and reads those that need its limits.
func (c *checker) complete(d *policyBuilder, name *yamlnode.Node) bool {
	ok := c.setMode(d)
	p := d.policy
	p.Limits = make([]weir.Limit, len(d.limits))
	p.Units = make([]string, len(d.limits))
	for i, l := range d.limits {
		if l.limit.Kind == weir.Rolling {
			l.limit.Cells = d.cells
		}
		p.Limits[i], p.Units[i] = l.limit, l.unit
	}
	if d.cells > 0 && !slices.ContainsFunc(p.Limits, func(l weir.Limit) bool { return l.Kind == weir.Rolling }) {
		ok = c.fail(d.cellsAt, "remove cells: "+withoutCells(p.Limits[0].Kind), "cells are for rolling windows, and policy %s has none", clip(p.Name))
	}
	ok = c.completeBlocks(d, name) && ok
	p.WarnPercents = eachOf(d.limits, func(l *limitBuilder) int { return cmp.Or(l.warn, d.warn) })
	ok = c.readCosts(d) && ok
	compiled, err := p.Compile()
	if err != nil {
		return c.accept(d.faultOf(err, name.Offset))
	}
	ok = c.checkCountDenied(d) && ok
	ok = c.checkReported(d) && ok
	read := c.readPlans(d)
	read = c.readOverrides(d, compiled.Dimensions) && read
	if !read {
		return false
	}
	return c.checkPlansUsed(d) && ok
}

// withoutCells returns the reason why limits of a kind have no cells.
func withoutCells(k weir.Kind) string {
	switch k {
	case weir.Bucket:
		return "a bucket is stored as one number anyway"
	case weir.Concurrency:
		return "holds end one by one"
	}
	return "a fixed window is stored as one number anyway"
}

// checkCountDenied rejects plans and overrides under denied: counted. Such a history keeps
// only as many entries as the smallest of its numbers needs (R6), so it would grant too
// much under a larger one.
func (c *checker) checkCountDenied(d *policyBuilder) bool {
	if d.policy.Mode != weir.CountDenied || d.plans.key == nil && d.overrides.key == nil {
		return true
	}
	return c.fail(d.deniedAt, "write denied: free, or a policy for each number", "denied: counted allows no plans and no overrides, because its histories fit one number only")
}

// checkReported rejects concurrency limits under count: reported. An attempt would hold nothing,
// and a report has no reservation that returns its units.
func (c *checker) checkReported(d *policyBuilder) bool {
	atOnce := slices.IndexFunc(d.policy.Limits, func(l weir.Limit) bool { return l.Kind == weir.Concurrency })
	if !d.policy.Reported || atOnce < 0 {
		return true
	}
	return c.fail(d.countAt, "write count: attempts, or move the concurrency limit to a policy of its own",
		"under count: reported an attempt takes nothing, so it would hold nothing of limit %s", d.policy.Limits[atOnce].Name)
}

// setMode derives the weir.Mode from denied and batch.
func (c *checker) setMode(d *policyBuilder) bool {
	switch {
	case d.countsDenied && d.policy.Reported:
		return c.fail(max(d.deniedAt, d.countAt), "remove one of the two", "denied: counted and count: reported contradict each other: one counts every attempt, the other none")
	case d.countsDenied && d.partial:
		return c.fail(max(d.deniedAt, d.batchAt), "remove one of the two", "denied: counted and batch: partial contradict each other: one counts all units of an attempt that does not fit, the other grants some of them")
	case d.countsDenied:
		d.policy.Mode = weir.CountDenied
	case d.partial:
		d.policy.Mode = weir.Partial
	}
	return true
}

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
	e, _ := errors.AsType[*weir.PolicyError](err) // Compile returns no other
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

// requestedUnits is the cost of a limit that is charged the units of the request.
const requestedUnits = "n"

// readCosts reads the units that an attempt takes of each limit.
func (c *checker) readCosts(d *policyBuilder) bool {
	costs := d.costs.value
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

// blocksSuffix follows a policy's name in the name of its blocks. No other policy on the
// same store may have that name.
const blocksSuffix = ".block"

// maxName is the longest name, in bytes.
const maxName = 64

// completeBlocks collects the blocks of a policy's limits.
func (c *checker) completeBlocks(d *policyBuilder, name *yamlnode.Node) bool {
	p := d.policy
	p.Blocks = eachOf(d.limits, func(l *limitBuilder) time.Duration { return l.block })
	if most := maxName - len(blocksSuffix); p.Blocks != nil && len(p.Name) > most {
		return c.fail(name.Offset, "use at most "+formatNumber(int64(most))+" characters",
			"the name is too long for a policy that blocks: its blocks are stored under the name with %s appended", blocksSuffix)
	}
	return true
}

// eachOf returns a value of each limit, or nil if all are zero.
func eachOf[T comparable](limits []*limitBuilder, of func(*limitBuilder) T) []T {
	all, zero := make([]T, len(limits)), *new(T)
	for i, l := range limits {
		all[i] = of(l)
	}
	if !slices.ContainsFunc(all, func(v T) bool { return v != zero }) {
		return nil
	}
	return all
}

// checkDerivedNames rejects a policy with the name of another policy's blocks.
func (c *checker) checkDerivedNames(f *File, policies *yamlnode.Node) bool {
	ok := true
	for name := range policies.Pairs() {
		if base, cut := strings.CutSuffix(name.Text, blocksSuffix); cut {
			if owner := f.Definition(base); owner != nil && owner.Blocks != nil {
				ok = c.fail(name.Offset, "choose another name", "the blocks of policy %s are stored under this name", clip(owner.Name))
			}
		}
	}
	return ok
}

// setWarn reads the share of one limit.
func (d *limitBuilder) setWarn(at int, word string) *fault {
	share, f := parseShare(at, word)
	d.warn, d.at.warn = share, at
	return f
}

// setWarn reads the share of every limit that names none of its own.
func (d *policyBuilder) setWarn(at int, word string) (f *fault) {
	d.warn, f = parseShare(at, word)
	return f
}

// shareForm is a whole percentage of 1% … 100%.
var shareForm = regexp.MustCompile("^" + sharePattern + "$")

const sharePattern = `([1-9][0-9]?|100)%`

func parseShare(at int, word string) (share int, f *fault) {
	if !shareForm.MatchString(word) {
		return 0, faultf(at, nextShare(word), "%s is not a share of a limit", clip(word))
	}
	share, _ = strconv.Atoi(strings.TrimSuffix(word, "%"))
	return share, nil
}

// nextShare returns the next step for a word that is no share.
func nextShare(word string) string {
	if shareForm.MatchString(word + "%") {
		return "write " + word + "%"
	}
	if digits, fraction := strings.CutPrefix(word, "0."); fraction && len(digits) == 2 && shareForm.MatchString(digits+"%") {
		return "write " + digits + "%"
	}
	return "use 1% to 100%, such as 80%"
}
