package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/yamlnode"
)

func (d *policyBuilder) setPlanBy(at int, word string) {
	checkName(at, word, "a key")
	d.policy.PlanBy = word
}

// readPlans reads the plans of a policy.
func (d *policyBuilder) readPlans() {
	by, _ := find(d.words, "plan-by")
	_, plans := find(d.words, "plans")
	switch {
	case plans == nil && by != nil:
		fail(by.Offset, "add plans: with a name and limits for each, or remove plan-by",
			"plan-by has no plans to choose from")
	case plans == nil:
		return
	case by != nil && len(d.policy.Dimensions()) == weir.MaxDimensions &&
		!slices.Contains(d.policy.Dimensions(), d.policy.PlanBy):
		fail(by.Offset, "count by fewer keys, or choose the plan by one of them",
			"with plan-by a call has %d values; %d are allowed",
			weir.MaxDimensions+1, weir.MaxDimensions)
	case plans.Kind != yamlnode.Map || plans.Len() == 0:
		fail(plans.Offset, "write the name of each plan, "+
			"without a dash, and its limits after or below it", "plans: has no names with limits")
	}
	d.policy.Plans = make([]Plan, 0, plans.Len())
	for name, value := range plans.Pairs() {
		plan := Plan{Name: name.Text, Line: name.Line}
		d.try(func() {
			checkName(name.Offset, name.Text, "a plan")
			plan.Changes = d.changes(value)
		})
		d.policy.Plans = append(d.policy.Plans, plan)
	}
}

// checkPlansUsed rejects plans that neither plan-by nor an override selects.
func (d *policyBuilder) checkPlansUsed() {
	byOverride := func(o Override) bool { return o.Plan != "" }
	selected := has(d.words, "plan-by") || slices.ContainsFunc(d.policy.Overrides, byOverride)
	if key, _ := find(d.words, "plans"); key != nil && !selected {
		fail(key.Offset, "add plan-by: with the key whose value names the plan, "+
			"such as plan-by: plan", "nothing selects one of the plans")
	}
}

// changes reads changes to the limits of a policy: a single limit, or a map of limits by
// name.
func (d *policyBuilder) changes(value *yamlnode.Node) (all []Change) {
	switch {
	case value.Kind != yamlnode.Map:
		return []Change{d.onlyChange("", value)}
	case value.Len() == 0:
		fail(value.Offset, "name the limits that change, or remove it", "no limit changes")
	}
	for name, limit := range value.Pairs() {
		d.try(func() { all = append(all, d.change(d.limitNamed(name), limit)) })
	}
	return all
}

// onlyChange reads the change of a policy with one limit. several stands before the changes of a
// policy with more.
func (d *policyBuilder) onlyChange(several string, value *yamlnode.Node) Change {
	if len(d.policy.Limits) > 1 && value.Kind != yamlnode.List {
		fail(value.Offset, "write "+several+"{NAME: LIMIT} with one of "+listed(d.limitNames()),
			"a limit without a name, in a policy with several")
	}
	return d.change(0, value)
}

// change reads new numbers for limit i of a policy, which keeps its window, kind, keys
// and block.
func (d *policyBuilder) change(i int, value *yamlnode.Node) Change {
	l := d.limit(value)
	l.at.name = value.Offset
	l.fit(d.policy, i)
	return Change{
		Limit:       i,
		Max:         l.limit.Max,
		Burst:       l.limit.Burst,
		MinInterval: l.limit.MinInterval,
		Unit:        cmp.Or(l.unit, d.policy.Units[i]),
	}
}

// fit completes a change by limit i of the policy, and fails at the first part that does not fit.
func (d *limitBuilder) fit(p *Definition, i int) {
	base := &p.Limits[i]
	d.inherit(base)
	d.complete()
	switch {
	case len(d.limit.By) > 0 && !slices.Equal(d.limit.By, base.By):
		fail(d.at.keys[0], "leave the keys out: those of the limit stay",
			"other keys would be another history")
	case d.limit.Block > 0 && d.limit.Block != base.Block:
		fail(d.at.block, "leave the block out: that of the limit stays",
			"plans and overrides have no blocks of their own")
	case d.warn > 0 && d.warn != valueOf(p.WarnPercents, i):
		fail(d.at.warn, "leave it out: that of the limit stays",
			"plans and overrides have no warning of their own")
	}
	d.keepWindows(base)
	d.limit.Window = base.Window
	d.limit.MaxHold = base.MaxHold
	d.limit.Period = base.Period
	d.limit.Zone = base.Zone
	d.limit.Anchor = base.Anchor
	d.validate()
}

// keepWindows fails if a change of base selects another kind or other windows.
func (d *limitBuilder) keepWindows(base *weir.Limit) {
	const shared = "because all plans share one history"
	unblocked := *base
	unblocked.Block = 0
	switch l := &d.limit; {
	case d.hasWindow && base.Kind != weir.KindConcurrency && l.Window != base.Window:
		fail(d.at.window, "write"+windowSentence(base)+
			", or add a limit with that window to the policy, unlimited where it does not apply",
			"the window must stay, %s", shared)
	case l.Kind == weir.KindBucket && base.Kind != weir.KindBucket:
		fail(d.at.burst, "leave it out: the limit has no burst",
			"a bucket would need another history")
	case l.Kind != base.Kind && !(hasWindows(l.Kind) && hasWindows(base.Kind)):
		fail(d.at.kind, "write it like the limit itself: "+sentence(unblocked, ""),
			"another kind of limit would need another history")
	case l.Kind != base.Kind:
		fail(d.at.kind, "leave it out: the limit's windows keep their kind",
			"windows that begin at other instants would need another history")
	case d.hasHold && l.MaxHold != base.MaxHold:
		fail(d.at.hold, "write for at most "+duration.Format(base.MaxHold),
			"the time of a hold must stay, %s", shared)
	case l.Zone != "" && l.Zone != base.Zone:
		fail(d.at.zone, "leave it out: the time zone of the limit stays",
			"the time zone must stay, %s", shared)
	case d.anchor != weir.NoPeriod && l.Anchor != base.Anchor:
		fail(d.at.from, "leave it out: the limit's windows begin as before",
			"the first day must stay, %s", shared)
	}
}

// hasWindows reports whether a limit of the kind counts in windows.
func hasWindows(k weir.Kind) bool { return k != weir.KindBucket && k != weir.KindConcurrency }

// limitNames returns the names of the policy's limits.
func (d *policyBuilder) limitNames() []string {
	return mapped(d.policy.Limits, func(l weir.Limit) string { return l.Name })
}

// limitNamed returns the index of the limit with the name that a node gives.
func (d *policyBuilder) limitNamed(name *yamlnode.Node) int {
	i := d.policy.limitNamed(name.Text)
	if i < 0 {
		fail(name.Offset, nextName(name.Text, d.limitNames(), "its limits are "),
			"%s is not a limit of the policy", clip(name.Text))
	}
	return i
}

// overrideBuilder is an override while the checker reads it.
type overrideBuilder struct {
	*policyBuilder
	override  Override
	limitWord *yamlnode.Node // limit or limits, the first of them
	network   string         // the key that has a network as its value; "" for none
}

// readOverrides reads the overrides of a policy.
func (d *policyBuilder) readOverrides() {
	_, overrides := find(d.words, "overrides")
	if overrides == nil {
		return
	}
	wantFilled(yamlnode.List, overrides, "write a list, each item with for:, "+
		"a limit or a plan, until: and why:", "overrides: is %s, not a list of them")
	if len(d.policy.Dimensions()) == 0 {
		fail(overrides.Offset,
			"count by a key, as in 10 per minute per user, or change the limit itself",
			"all callers share the policy's limits, so no key can have others")
	}
	lasting := map[string]Override{}
	for item := range overrides.Items() {
		var o Override
		if !d.try(func() { o = d.override(item) }) {
			continue
		}
		keys := fmt.Sprintf("%q", o.sortedFor())
		if before, found := lasting[keys]; found && !o.outlasts(&before) {
			d.record(faultf(item.Offset,
				"remove one of the two, or put the one that ends first above the other",
				"it never applies: the override of line %d is for the same keys and ends no sooner",
				before.Line))
		}
		lasting[keys] = o
		d.policy.Overrides = append(d.policy.Overrides, o)
	}
}

// outlasts reports whether the override still applies when other has ended.
func (o *Override) outlasts(other *Override) bool {
	if other.Until.IsZero() {
		return false
	}
	return o.Until.IsZero() || o.Until.After(other.Until)
}

func (d *policyBuilder) override(item *yamlnode.Node) Override {
	want(yamlnode.Map, item, "write for: {key: value}, a limit or a plan, until: and why:",
		"%s in place of an override")
	v := overrideBuilder{policyBuilder: d, override: Override{Line: item.Line}}
	apply(d.checker, overrideWords, anOverride, item, &v)
	missing := ""
	switch {
	case !has(item, "for"):
		missing = "for: {" + d.policy.Dimensions()[0] + ": VALUE}"
	case v.limitWord == nil && !has(item, "plan"):
		missing = "limit: 10 per minute, limits: or plan:"
	case !has(item, "until"):
		missing = "until: 2026-12-31, or until: forever"
	case !has(item, "why"):
		missing = "why: with the reason, in a sentence"
	}
	// An unknown word is probably the missing one.
	if missing != "" && allKnown(overrideWords, item) {
		d.record(faultf(item.Offset, "add "+missing, "the override is incomplete"))
	}
	return v.override
}

// setPlan reads the name of one of the plans, which are read before the overrides.
func (v *overrideBuilder) setPlan(at int, name string) {
	plans := mapped(v.policy.Plans, func(p Plan) string { return p.Name })
	switch {
	case slices.Contains(plans, name):
		v.override.Plan = name
	case len(plans) == 0:
		fail(at, "add plans: with a name and limits for each, or write limit: in place of plan:",
			"%s is not a plan of the policy", clip(name))
	default:
		fail(at, nextName(name, plans, "its plans are "),
			"%s is not a plan of the policy", clip(name))
	}
}

func (c *checker) setFor(v *overrideBuilder, key, value *yamlnode.Node) {
	wantFilled(yamlnode.Map, value, "write for: {"+v.policy.Dimensions()[0]+": VALUE}",
		"for: is %s, not a map of keys and values")
	for name, text := range value.Pairs() {
		c.try(func() {
			if !slices.Contains(v.policy.Dimensions(), name.Text) {
				fail(name.Offset, nextName(name.Text, v.policy.Dimensions(), "it counts by "),
					"%s is not a key the policy counts by", clip(name.Text))
			}
			v.override.For = append(v.override.For, v.namedValue(name, text))
		})
	}
}

// dimension reads the value of a key: any text of 1 to weir.MaxValueBytes bytes.
func dimension(name, value *yamlnode.Node) Dimension {
	switch {
	case value.Kind != yamlnode.Scalar:
		fail(value.Offset, "write one value, and an item of its own for each further one",
			"%s: is %s, not a value", name.Text, describeKind(value))
	case value.Text == "":
		fail(value.Offset, "write a value, or leave out "+name.Text,
			"%s: is empty, and no call has an empty value", name.Text)
	case value.Type() != "text":
		fail(value.Offset, "put it in quotes: values of keys are text",
			"%s: %s is %s, not text", name.Text, quote(value), describeKind(value))
	case len(value.Text) > weir.MaxValueBytes:
		fail(value.Offset, fmt.Sprintf("use at most %d bytes", weir.MaxValueBytes),
			"the value of %s is too long", name.Text)
	}
	return Dimension{name.Text, value.Text}
}

// setOverrideLimit reads limit: as a line or in its long form, limits: as a map.
func setOverrideLimit(_ *checker, v *overrideBuilder, key, value *yamlnode.Node) {
	if v.limitWord != nil {
		fail(key.Offset, "move all limits below limits:, each with its name",
			"limit and limits in one override")
	}
	v.limitWord = key
	if key.Text == "limit" {
		v.override.Changes = []Change{v.onlyChange("limits: ", value)}
		return
	}
	want(yamlnode.Map, value, "write limits: {NAME: LIMIT}", "limits: is %s, not a map")
	v.override.Changes = v.changes(value)
}

const forever = "forever"

// setUntil reads the end of an override. A day lasts to its end in UTC.
func (v *overrideBuilder) setUntil(at int, word string) {
	if word != forever {
		v.override.Until = instantAt(at, word, 1, "write a day such as 2026-12-31, "+
			"which lasts to its end in UTC, an instant such as 2026-12-31T18:00:00Z, or forever")
	}
}

// instantAt reads an instant of RFC 3339, in whole seconds and with Z or an offset, such as
// 2026-12-31T18:00:00Z or 2026-12-31T19:00:00+01:00. For a day it returns the beginning, in UTC,
// of the day that is so many days later.
func instantAt(at int, word string, days int, next string) time.Time {
	const local = "2006-01-02T15:04:05"
	t, err := time.Parse(time.DateOnly, word)
	isDay := err == nil
	if !isDay {
		t, err = time.Parse(time.RFC3339, word)
	}
	exact := isDay || word == t.Format(local+"Z") || word == t.Format(local+"-07:00")
	switch {
	case err != nil || !exact:
		if t, err := time.Parse(local, strings.Replace(word, " ", "T", 1)); err == nil {
			fail(at, "write "+t.Format(local+"Z")+" for UTC, "+
				"or an offset such as +01:00 in place of the Z", "%s has no time zone", clip(word))
		}
		fail(at, next, "%s is neither a day nor an instant", clip(word))
	case t.Year() < 1971 || t.Year() > 2199: // weir can decide at these, with a margin
		fail(at, "use the years 1971 to 2199", "%s is out of range", clip(word))
	case isDay:
		return t.AddDate(0, 0, days)
	}
	return t.UTC()
}

func setWhy(_ *checker, v *overrideBuilder, _, value *yamlnode.Node) {
	v.override.Why = strings.TrimSpace(value.Text)
	if value.Type() != "text" || v.override.Why == "" {
		fail(value.Offset,
			"write a sentence from which the next reader can judge whether to remove it",
			"why: has no reason")
	}
}
