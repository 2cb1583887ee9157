package policy

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// word is one word of a map of the file, with the function that reads its value. A word without
// one is read later. Its description for editors is in weir.schema.json.
type word[T any] struct {
	name string
	set  setter[T]
}

// setter reads the value of a word into target.
type setter[T any] = func(c *checker, target T, key, value *yamlnode.Node)

// scalar is the setter of a word with a single value, which set reads.
func scalar[T any](set func(target T, at int, word string)) setter[T] {
	return func(c *checker, target T, key, value *yamlnode.Node) {
		at, word := c.scalar(key, value)
		set(target, at, word)
	}
}

// text is scalar without numbers and booleans, because other programs would not read them as text.
func text[T any](set func(target T, at int, word string)) setter[T] {
	read := scalar(set)
	return func(c *checker, target T, key, value *yamlnode.Node) {
		switch value.Type() {
		case "integer", "number", "boolean":
			fail(value.Offset, "put it in quotes if it is meant as text",
				"%s: %s is %s, not text", key.Text, clip(value.Text), describeKind(value))
		}
		read(c, target, key, value)
	}
}

// choice is the setter of a word that has one of some values. set gets the offset of the value in
// the file, and its index among the values.
func choice[T any](values []string, set func(target T, at, i int)) setter[T] {
	return func(_ *checker, target T, key, value *yamlnode.Node) {
		i := slices.Index(values, value.Text)
		if i < 0 || value.Type() != "text" {
			fail(value.Offset, "use one of "+strings.Join(values, ", "),
				"%s: %s is not one of its values", key.Text, quote(value))
		}
		set(target, value.Offset, i)
	}
}

// boolean is the setter of a word that is true or false.
func boolean[T any](to func(T) *bool) setter[T] {
	return func(_ *checker, target T, key, value *yamlnode.Node) {
		if value.Quoted() && slices.Contains([]string{"true", "false"}, value.Text) {
			fail(value.Offset, "remove the quotes",
				"%s: %s is text, not true or false", key.Text, quote(value))
		}
		if value.Type() != "boolean" {
			fail(value.Offset, "write "+key.Text+": true, or remove the word",
				"%s: %s is not true or false", key.Text, quote(value))
		}
		*to(target) = value.Text[0]|0x20 == 't'
	}
}

// whole is the setter of a whole number of least … most.
func whole[T any](least, most int64, to func(T) *int64) setter[T] {
	return func(c *checker, target T, key, value *yamlnode.Node) {
		at, word := c.scalar(key, value)
		digits, negative := strings.CutPrefix(word, "-")
		n, problem := parseNumber(digits)
		if negative {
			n = -n
		}
		minusZero := negative && n == 0
		if problem != "" || n < least || n > most || minusZero {
			fail(at, "use a whole number of "+formatNumber(least)+" to "+formatNumber(most),
				"%s: %s is not one of its numbers", key.Text, clip(word))
		}
		*to(target) = n
	}
}

// scalar returns the text of a single value, and its offset.
func (c *checker) scalar(key, value *yamlnode.Node) (at int, word string) {
	if value.Kind != yamlnode.Scalar || value.Null() {
		fail(value.Offset, "write a single word", "%s: is %s", key.Text, describeKind(value))
	}
	return value.At(c.doc, 0), value.Text
}

// maxCells is the largest number of cells, which is an int on every platform. A cell of
// the longest window is then 17 ms wide.
const maxCells = 1<<31 - 1

var fileWords = []word[*File]{
	{"version", setVersion},
	{"policies", (*checker).setPolicies},
	{"tests", nil},
}

// The values of denied and batch. Together they select the weir.Mode.
var (
	deniedValues = []string{"free", "counted"}
	batchValues  = []string{"whole", "partial"}
)

var policyWords = []word[*policyBuilder]{
	{"about", setAbout},
	{"limit", (*checker).setLimit},
	{"limits", (*checker).setLimits},
	{"denied", choice(deniedValues, func(d *policyBuilder, _, i int) { d.countsDenied = i == 1 })},
	{"batch", choice(batchValues, func(d *policyBuilder, _, i int) { d.partial = i == 1 })},
	{"cells", whole(0, maxCells, func(d *policyBuilder) *int64 { return &d.cells })},
	{"warn", scalar((*policyBuilder).setWarn)},
	{"when-store-is-down", choice(storeDownValues, (*policyBuilder).setWhenStoreIsDown)},
	{"max-wait", scalar((*policyBuilder).setMaxWait)},
	{"count", choice(countValues, func(d *policyBuilder, _, i int) { d.policy.Reported = i == 1 })},
	{"shadow", boolean(func(d *policyBuilder) *bool { return &d.policy.Shadow })},
	{"costs", nil},
	{"keys", nil},
	{"plan-by", text((*policyBuilder).setPlanBy)},
	{"plans", nil},
	{"overrides", nil},
}

var overrideWords = []word[*overrideBuilder]{
	{"for", (*checker).setFor},
	{"limit", setOverrideLimit},
	{"limits", setOverrideLimit},
	{"plan", text((*overrideBuilder).setPlan)},
	{"until", scalar((*overrideBuilder).setUntil)},
	{"why", setWhy},
}

var limitWords = []word[*limitBuilder]{
	{"max", scalar((*limitBuilder).setMax)},
	{"window", scalar((*limitBuilder).setWindow)},
	{"per", setKeys},
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
	{"steps", nil},
}

var stepWords = []word[*stepBuilder]{
	{"at", scalar((*stepBuilder).setAt)},
	{"do", choice(doValues, func(s *stepBuilder, _, i int) { s.step.Do = doValues[i] })},
	{"key", keyOf(func(s *stepBuilder) *[]Dimension { return &s.step.Key })},
	{"n", whole(0, weir.MaxUnits, func(s *stepBuilder) *int64 { return &s.step.N })},
	{"times", whole(1, maxTimes, func(s *stepBuilder) *int64 { return &s.step.Times })},
	{"expect", choice(expectValues, func(s *stepBuilder, _, i int) {
		s.step.Expect.Allowed = new(i == 0)
	})},
	{"granted", whole(0, weir.MaxUnits, func(s *stepBuilder) *int64 {
		return fresh(&s.step.Expect.Granted)
	})},
	{"remaining", whole(-weir.MaxUnits, weir.MaxUnits, func(s *stepBuilder) *int64 {
		return fresh(&s.step.Expect.Remaining)
	})},
	{"retry", scalar((*stepBuilder).setRetry)},
	{"limit", text((*stepBuilder).setLimit)},
	{"warning", boolean(func(s *stepBuilder) *bool { return fresh(&s.step.Expect.Warning) })},
}

// apply sets every word of the map in target, in the order of the file, and reports whether
// all of them were accepted.
func apply[T any](c *checker, words []word[T], of string, m *yamlnode.Node, target T) bool {
	ok := true
	for key, value := range m.Pairs() {
		ok = c.try(func() {
			i := slices.IndexFunc(words, func(w word[T]) bool { return w.name == key.Text })
			if i < 0 {
				panic(unknown(key, value, of, names(words)))
			}
			if set := words[i].set; set != nil {
				set(c, target, key, value)
			}
		}) && ok
	}
	return ok
}

// allKnown reports whether the table has every word of the map.
func allKnown[T any](words []word[T], m *yamlnode.Node) bool {
	for key := range m.Pairs() {
		if !slices.Contains(names(words), key.Text) {
			return false
		}
	}
	return true
}

func names[T any](words []word[T]) []string {
	return mapped(words, func(w word[T]) string { return w.name })
}

// mapped returns of(each) for each element of a list.
func mapped[T, U any](all []T, of func(T) U) []U {
	results := make([]U, len(all))
	for i, each := range all {
		results[i] = of(each)
	}
	return results
}
