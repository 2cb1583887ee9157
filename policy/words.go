package policy

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// word is one word of a map of the file, with the function that reads its value. Its
// description for editors is in weir.schema.json.
type word[T any] struct {
	name string
	set  setter[T]
}

// setter reads the value of a word into target, and reports whether it succeeded.
type setter[T any] = func(c *checker, target T, key, value *yamlnode.Node) bool

// scalar is the setter of a word with a single value, which set reads.
func scalar[T any](set func(target T, at int, word string) *fault) setter[T] {
	return func(c *checker, target T, key, value *yamlnode.Node) bool {
		return c.scalar(key, value, func(at int, word string) *fault { return set(target, at, word) })
	}
}

// text is scalar without numbers and booleans.
func text[T any](set func(target T, at int, word string) *fault) setter[T] {
	read := scalar(set)
	return func(c *checker, target T, key, value *yamlnode.Node) bool {
		return c.isText(key, value) && read(c, target, key, value)
	}
}

// choice is the setter of a word with one of some values, which set gets by its offset and
// its index.
func choice[T any](values []string, set func(target T, at, i int)) setter[T] {
	return func(c *checker, target T, key, value *yamlnode.Node) bool {
		i := slices.Index(values, value.Text)
		if i < 0 || value.Type() != "text" {
			return c.fail(value.Offset, "use one of "+strings.Join(values, ", "), "%s: %s is not one of its values", key.Text, c.quote(value))
		}
		set(target, value.Offset, i)
		return true
	}
}

// pair is a word with its value. Both are nil if the word is not given.
type pair struct{ key, value *yamlnode.Node }

// deferred is the setter of a word that is read later: it stores the word with its value.
func deferred[T any](to func(T) *pair) setter[T] {
	return func(_ *checker, target T, key, value *yamlnode.Node) bool {
		*to(target) = pair{key, value}
		return true
	}
}

// boolean is the setter of a word that is true or false.
func boolean[T any](to func(T) *bool) setter[T] {
	return func(c *checker, target T, key, value *yamlnode.Node) bool {
		if value.Type() != "boolean" {
			return c.fail(value.Offset, "write "+key.Text+": true, or remove the word", "%s: %s is not true or false", key.Text, c.quote(value))
		}
		*to(target) = value.Text[0]|0x20 == 't'
		return true
	}
}

// whole is the setter of a whole number of 0 … most.
func whole[T any](most int64, to func(T) *int64) setter[T] {
	return func(c *checker, target T, key, value *yamlnode.Node) bool {
		return c.whole(key, value, most, to(target))
	}
}

// maxCells is the largest number of cells, which is an int on every platform. A cell of
// the longest window is then 17 ms wide.
const maxCells = 1<<31 - 1

var fileWords = []word[*fileBuilder]{
	{"version", (*checker).setVersion},
	{"policies", (*checker).setPolicies},
	{"tests", deferred(func(f *fileBuilder) *pair { return &f.tests })},
}

// The values of denied and batch. Together they select the weir.Mode.
var (
	deniedValues = []string{"free", "counted"}
	batchValues  = []string{"whole", "partial"}
)

var policyWords = []word[*policyBuilder]{
	{"about", (*checker).setAbout},
	{"limit", (*checker).setLimit},
	{"limits", (*checker).setLimits},
	{"denied", choice(deniedValues, func(d *policyBuilder, at, i int) { d.countsDenied, d.deniedAt = i == 1, at })},
	{"batch", choice(batchValues, func(d *policyBuilder, at, i int) { d.partial, d.batchAt = i == 1, at })},
	{"cells", (*checker).setCells},
	{"warn", scalar((*policyBuilder).setWarn)},
	{"when-store-is-down", choice(storeDownValues, (*policyBuilder).setWhenStoreIsDown)},
	{"count", choice(countValues, func(d *policyBuilder, at, i int) { d.policy.Reported, d.countAt = i == 1, at })},
	{"shadow", boolean(func(d *policyBuilder) *bool { return &d.policy.Shadow })},
	{"costs", deferred(func(d *policyBuilder) *pair { return &d.costs })},
	{"plan-by", (*checker).setPlanBy},
	{"plans", deferred(func(d *policyBuilder) *pair { return &d.plans })},
	{"overrides", deferred(func(d *policyBuilder) *pair { return &d.overrides })},
}

var overrideWords = []word[*overrideBuilder]{
	{"for", (*checker).setFor},
	{"limit", (*checker).setOverrideLimit},
	{"limits", (*checker).setOverrideLimit},
	{"plan", text((*overrideBuilder).setPlan)},
	{"until", scalar((*overrideBuilder).setUntil)},
	{"why", (*checker).setWhy},
}

var limitWords = []word[*limitBuilder]{
	{"max", scalar((*limitBuilder).setMax)},
	{"window", scalar((*limitBuilder).setWindow)},
	{"per", (*checker).setKeys},
	{"apart", scalar((*limitBuilder).setApart)},
	{"block", scalar((*limitBuilder).setBlock)},
	{"kind", choice(answer.KindWords[:], (*limitBuilder).setKind)},
	{"unit", text((*limitBuilder).setUnit)},
	{"warn", scalar((*limitBuilder).setWarn)},
	{"burst", scalar((*limitBuilder).setBurst)},
	{"zone", text((*limitBuilder).setZone)},
	{"from", scalar((*limitBuilder).setAnchor)},
	{"max_hold", scalar((*limitBuilder).setHold)},
}

var testWords = []word[*testBuilder]{
	{"policy", text((*testBuilder).setPolicy)},
	{"from", scalar((*testBuilder).setFrom)},
	{"key", keyOf(func(d *testBuilder) *[]Dimension { return &d.test.Key })},
	{"steps", deferred(func(d *testBuilder) *pair { return &d.steps })},
}

var stepWords = []word[*stepBuilder]{
	{"at", scalar((*stepBuilder).setAt)},
	{"do", choice(doValues, func(s *stepBuilder, _, i int) { s.step.Do = doValues[i] })},
	{"key", keyOf(func(s *stepBuilder) *[]Dimension { return &s.step.Key })},
	{"n", whole(weir.MaxUnits, func(s *stepBuilder) *int64 { return &s.step.N })},
	{"times", (*checker).setTimes},
	{"expect", choice(expectValues, func(s *stepBuilder, _, i int) { s.step.Expect.Allowed = new(i == 0) })},
	{"granted", (*checker).setGranted},
	{"remaining", (*checker).setRemaining},
	{"retry", scalar((*stepBuilder).setRetry)},
	{"limit", text((*stepBuilder).setLimit)},
	{"warning", (*checker).setWarning},
}

// apply sets every word of the map in target, in the order of the file, and reports
// whether all of them were accepted.
func apply[T any](c *checker, words []word[T], of string, m *yamlnode.Node, target T) bool {
	ok := true
	for key, value := range m.Pairs() {
		if w := find(words, key.Text); w == nil {
			ok = c.unknown(key, value, of, names(words))
		} else if !w.set(c, target, key, value) {
			ok = false
		}
	}
	return ok
}

// allKnown reports whether the table has every word of the map.
func allKnown[T any](words []word[T], m *yamlnode.Node) bool {
	for key := range m.Pairs() {
		if find(words, key.Text) == nil {
			return false
		}
	}
	return true
}

func find[T any](words []word[T], name string) *word[T] {
	for i := range words {
		if words[i].name == name {
			return &words[i]
		}
	}
	return nil
}

func names[T any](words []word[T]) []string {
	return namesOf(words, func(w word[T]) string { return w.name })
}

func namesOf[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for i, each := range all {
		names[i] = name(each)
	}
	return names
}
