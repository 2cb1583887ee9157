package policy

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// policyBuilder is a policy while the checker reads it.
type policyBuilder struct {
	*checker
	policy    *Definition
	words     *yamlnode.Node  // the map of its words
	limits    []*limitBuilder // empty after a fault in one of them
	limitWord *yamlnode.Node  // limit or limits, the first of them
	cells     int64
	warn      int // percent of the limits without a share of their own; 0 = none

	countsDenied, partial bool // denied: counted, batch: partial
}

// policy reads a policy. It goes on after a fault as long as later faults are not
// consequences of it.
func (c *checker) policy(name, words *yamlnode.Node) *Definition {
	checkName(name.Offset, name.Text, "a policy")
	if words.Kind != yamlnode.Map {
		next := "write limit: 10 per minute on the line below, indented"
		if words.Kind == yamlnode.List {
			next = "write the words of the policy without dashes, such as limit: 10 per minute"
		} else if strings.Contains(words.Text, ":") {
			next = "put a space after the colon"
		}
		if words.Null() {
			fail(words.Offset, next, "policy %s is empty", clip(name.Text))
		}
		fail(words.Offset, next, "%s in place of the words of policy %s",
			describeKind(words), clip(name.Text))
	}
	d := policyBuilder{checker: c, words: words}
	d.policy = &Definition{
		Name:            name.Text,
		Line:            name.Line,
		WhenStoreIsDown: engine.OutageDeny,
		file:            c.file,
	}
	ok := apply(c, policyWords, aPolicy, words, &d)
	if d.limitWord == nil && ok {
		fail(name.Offset, "add limit: 10 per minute, or limits: with a name for each",
			"policy %s has no limit", clip(name.Text))
	}
	if len(d.limits) > 0 {
		d.complete(name)
	}
	return d.policy
}

// complete checks the words of a policy together, and reads those that need its limits.
func (d *policyBuilder) complete(name *yamlnode.Node) {
	d.addLimits()
	d.try(d.setMode, d.checkCells, d.readCosts)
	if _, err := d.policy.Compile(); err != nil {
		d.failBy(err, name.Offset)
	}
	d.try(d.checkCountDenied, d.checkReported, d.checkMaxWait)
	if d.try(d.readForms, d.readPlans, d.readOverrides) {
		d.checkPlansUsed()
	}
}

// addLimits sets the limits of the policy.
func (d *policyBuilder) addLimits() {
	p := d.policy
	for _, l := range d.limits {
		if l.limit.Kind == weir.KindRolling {
			l.limit.Cells = int(d.cells)
		}
		p.Limits, p.Units = append(p.Limits, l.limit), append(p.Units, l.unit)
	}
	p.WarnPercents = eachOf(d.limits, func(l *limitBuilder) int { return cmp.Or(l.warn, d.warn) })
}

// valueAt returns the offset of the value of a word.
func (d *policyBuilder) valueAt(word string) int {
	_, value := find(d.words, word)
	return value.Offset
}

// limitOf returns the first limit of a kind, or -1.
func (d *policyBuilder) limitOf(k weir.Kind) int {
	return slices.IndexFunc(d.policy.Limits, func(l weir.Limit) bool { return l.Kind == k })
}

// checkCells rejects cells without a limit that has them.
func (d *policyBuilder) checkCells() {
	if d.cells > 0 && d.limitOf(weir.KindRolling) < 0 {
		fail(d.valueAt("cells"), "remove cells",
			"cells are for rolling windows, and policy %s has none", clip(d.policy.Name))
	}
}

// checkCountDenied rejects plans and overrides under denied: counted. Such a history keeps
// only as many entries as the smallest of its numbers needs (R6), so it would grant too
// much under a larger one.
func (d *policyBuilder) checkCountDenied() {
	if d.policy.Mode == weir.CountDenied && (has(d.words, "plans") || has(d.words, "overrides")) {
		fail(d.valueAt("denied"), "write denied: free, or a policy for each number",
			"denied: counted allows no plans and no overrides, "+
				"because its histories fit one number only")
	}
}

// checkReported rejects concurrency limits under count: reported. An attempt would hold nothing,
// and a report has no reservation that returns its units.
func (d *policyBuilder) checkReported() {
	if i := d.limitOf(weir.KindConcurrency); d.policy.Reported && i >= 0 {
		fail(d.valueAt("count"),
			"write count: attempts, or move the concurrency limit to a policy of its own",
			"under count: reported an attempt takes nothing, so it would hold nothing of limit %s",
			d.policy.Limits[i].Name)
	}
}

// setMaxWait reads the longest wait of a caller over the wire.
func (d *policyBuilder) setMaxWait(at int, word string) {
	d.policy.MaxWait = lengthAt(at, word)
	checkLength(at, "wait", d.policy.MaxWait)
}

// checkMaxWait rejects max-wait where no attempt can wait (R18).
func (d *policyBuilder) checkMaxWait() {
	const next = "remove max-wait"
	held := d.limitOf(weir.KindConcurrency)
	switch {
	case d.policy.MaxWait == 0:
	case d.policy.Mode == weir.CountDenied:
		fail(d.valueAt("max-wait"), next,
			"under denied: counted a denied attempt delays the next one, so none can wait")
	case d.policy.Reported:
		fail(d.valueAt("max-wait"), next,
			"under count: reported an attempt takes nothing, so it has nothing to wait for")
	case held >= 0:
		fail(d.valueAt("max-wait"),
			"remove max-wait, or move the concurrency limit to a policy of its own",
			"nobody knows when the units of limit %s are released, so no attempt can wait",
			d.policy.Limits[held].Name)
	}
}

// setMode derives the weir.Mode from denied and batch.
func (d *policyBuilder) setMode() {
	switch {
	case d.countsDenied && d.policy.Reported:
		fail(max(d.valueAt("denied"), d.valueAt("count")), "remove one of the two",
			"denied: counted and count: reported contradict each other: "+
				"one counts every attempt, the other none")
	case d.countsDenied && d.partial:
		fail(max(d.valueAt("denied"), d.valueAt("batch")), "remove one of the two",
			"denied: counted and batch: partial contradict each other: "+
				"one counts all units of an attempt that does not fit, the other grants some of them")
	case d.countsDenied:
		d.policy.Mode = weir.CountDenied
	case d.partial:
		d.policy.Mode = weir.Partial
	}
}

func setAbout(_ *checker, d *policyBuilder, _, value *yamlnode.Node) {
	if value.Type() != "text" {
		fail(value.Offset, "write a sentence, in quotes if necessary",
			"about: is %s, not text", describeKind(value))
	}
	d.policy.About = strings.TrimSpace(value.Text)
}

func (c *checker) setLimit(d *policyBuilder, key, value *yamlnode.Node) {
	d.setLimitWord(key)
	d.limits = []*limitBuilder{c.namedLimit(onlyLimitName, key.Offset, value)}
}

func (c *checker) setLimits(d *policyBuilder, key, value *yamlnode.Node) {
	d.setLimitWord(key)
	wantFilled(yamlnode.Map, value, "write the name of each limit, "+
		"without a dash, and the limit after it; or write limit: for a single one",
		"limits: is %s, not a map of names to limits")
	var limits []*limitBuilder
	for name, limit := range value.Pairs() {
		c.try(func() {
			checkName(name.Offset, name.Text, "a limit")
			limits = append(limits, c.namedLimit(name.Text, name.Offset, limit))
		})
	}
	if len(limits) == value.Len() {
		d.limits = limits
	}
}

// setLimitWord rejects limit and limits in one policy.
func (d *policyBuilder) setLimitWord(key *yamlnode.Node) {
	if d.limitWord != nil {
		fail(key.Offset, "move all limits below limits:, each with a name",
			"limit and limits in one policy")
	}
	d.limitWord = key
}

func (d *policyBuilder) setWhenStoreIsDown(_, i int) {
	d.policy.WhenStoreIsDown = engine.OutageDeny + engine.Outage(i)
}

// failBy fails with an error of weir's own check, at the limit that it names.
func (d *policyBuilder) failBy(err error, name int) {
	e, _ := errors.AsType[*weir.PolicyError](err) // Compile returns no other
	for _, l := range d.limits {
		if e.Limit != "" && l.limit.Name == e.Limit {
			l.failBy(e)
		}
	}
	at := name
	if e.Field == "Limits" || e.Field == "Dimensions" {
		at = d.limitWord.Offset
	}
	fail(at, "write a policy for each group of limits that must be decided together",
		"%s", e.Problem)
}

// requestedUnits is the cost of a limit that is charged the units of the request.
const requestedUnits = "n"

// readCosts reads the units that an attempt takes of each limit.
func (d *policyBuilder) readCosts() {
	_, costs := find(d.words, "costs")
	if costs == nil {
		return
	}
	if costs.Kind != yamlnode.Map || costs.Len() == 0 {
		fail(costs.Offset, "write {LIMIT: 1} with one of "+listed(d.limitNames()),
			"costs: has no limits with a number, or n")
	}
	for name, value := range costs.Pairs() {
		d.try(func() { d.policy.Limits[d.limitNamed(name)].Cost = d.cost(value) })
	}
}

// cost reads the cost of a limit. 0 stands for the units of the request.
func (d *policyBuilder) cost(value *yamlnode.Node) int64 {
	if value.Kind == yamlnode.Scalar && value.Text == requestedUnits {
		return 0
	}
	n, problem := parseNumber(value.Text)
	switch {
	case value.Kind != yamlnode.Scalar || problem != "" || n == 0 || n > weir.MaxUnits:
		fail(value.Offset, "use 1 or more for a fixed cost, or n for the units requested",
			"%s is not a cost", quote(value))
	case d.policy.Mode == weir.Partial:
		fail(value.Offset, "write batch: whole, or n",
			"batch: partial grants parts of a request, and a fixed cost has no parts")
	}
	return n
}

// eachOf returns a value of each limit, or nil if all are zero.
func eachOf[T comparable](limits []*limitBuilder, of func(*limitBuilder) T) []T {
	all := mapped(limits, of)
	if !slices.ContainsFunc(all, func(v T) bool { return v != *new(T) }) {
		return nil
	}
	return all
}

// setWarn reads the share of one limit.
func (d *limitBuilder) setWarn(at int, word string) { d.warn, d.at.warn = share(at, word), at }

// setWarn reads the share of every limit that names none of its own.
func (d *policyBuilder) setWarn(at int, word string) { d.warn = share(at, word) }

// shareForm is a whole percentage of 1% … 100%.
var shareForm = regexp.MustCompile("^" + sharePattern + "$")

const sharePattern = `([1-9][0-9]?|100)%`

// share reads a share of a limit in percent.
func share(at int, word string) int {
	if !shareForm.MatchString(word) {
		fail(at, nextShare(word), "%s is not a share of a limit", clip(word))
	}
	percent, _ := strconv.Atoi(strings.TrimSuffix(word, "%"))
	return percent
}

// nextShare returns the next step for a word that is no share.
func nextShare(word string) string {
	if shareForm.MatchString(word + "%") {
		return "write " + word + "%"
	}
	digits, isFraction := strings.CutPrefix(word, "0.")
	if isFraction && len(digits) == 2 && shareForm.MatchString(digits+"%") {
		return "write " + digits + "%"
	}
	return "use 1% to 100%, such as 80%"
}
