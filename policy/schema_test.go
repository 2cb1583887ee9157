package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/testkit/jsonschema"

	"github.com/weirlimit/weir"
)

// TestSchemaIsMadeOfTheWords: the schema that is checked in is made of the words Parse reads by. Each of
// them is described below.
func TestSchemaIsMadeOfTheWords(t *testing.T) {
	made, err := json.Marshal(makeSchema())
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, append(made, '\n'), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "weir.schema.json", indented.Bytes())
}

// Patterns of the grammar, made of the tables it is read by.
var (
	numberPattern  = `(0|[1-9][0-9]*(_[0-9]+)*)`
	lengthPattern  = numberPattern + `(` + alternatives(lengths) + `)`
	windowPattern  = `(` + alternatives(windows) + `|` + lengthPattern + `)`
	instantPattern = `[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2}))?`
	namePattern    = `[a-z0-9][a-z0-9._-]{0,63}`
	dayPattern     = `(([1-9]|[12][0-9]|3[01])(st|nd|rd|th)?|` + strings.Join(weekdays, "|") + `)`
	linePattern    = `\s*` + countPattern + `(\s+` + wordPer + `\s+` + namePattern + `)*(\s*,\s*` + clausePattern + `)*` +
		`(\s*,\s*` + wordThen + `\s+` + wordBlock + `\s+` + lengthPattern + `)?\s*`

	countPattern = fmt.Sprintf(`(%[1]s(\s+%[2]s)?\s+%[3]s\s+%[4]s|%[5]s(\s+%[2]s)?(\s+%[3]s\s+%[4]s)?|(%[1]s|%[5]s)(\s+%[2]s)?\s+%[6]s)`,
		numberPattern, unitPattern, wordPer, windowPattern, wordUnlimited, strings.Join(atOnce, `\s+`))
	fromPattern   = wordFrom + `\s+(` + strings.Join(theFirstHit, `\s+`) + `|(the\s+)?` + dayPattern + `)`
	inPattern     = wordIn + `\s+` + zonePattern
	clausePattern = `(` + strings.Join([]string{
		wordFixed + `(\s+(` + fromPattern + `|` + inPattern + `))*`, fromPattern, inPattern,
		wordBurst + `\s+` + numberPattern, strings.Join(forAtMost, `\s+`) + `\s+` + lengthPattern, lengthPattern + `\s+` + wordApart,
	}, "|") + `)`
)

func alternatives(lengths []namedLength) string {
	return strings.Join(namesOf(lengths, func(l namedLength) string { return l.name }), "|")
}

func pattern(p string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: "^" + p + "$"}
}

func ref(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }

func makeSchema() *jsonschema.Schema {
	s := object(fileWords, fileSchema)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Weir policy file"
	s.Description = "Rate limits, one line each, in the words a person would say. Windows roll unless a limit says fixed."
	s.Required = requiredWords
	s.Defs = map[string]*jsonschema.Schema{
		"name":     pattern(namePattern),
		"key":      keySchema(),
		"policy":   policyObject(),
		"limit":    limitObject(),
		"plan":     {AnyOf: []*jsonschema.Schema{pattern(linePattern), mapOf("limit", jsonschema.Ptr(weir.MaxLimits))}},
		"override": overrideObject(),
		"values":   {Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}},
		"test":     required(object(testWords, testSchemaIsMadeOfTheWords), "policy", "steps"),
		"step":     object(stepWords, stepSchema),
	}
	return s
}

// keySchema is a name that is no word of the grammar, nor the plural of one.
func keySchema() *jsonschema.Schema {
	s := pattern(namePattern)
	s.Not = pattern(fmt.Sprintf(`(%ss?|%s|%s)`, windowPattern, wordPer, wordApart))
	return s
}

func policyObject() *jsonschema.Schema {
	s := object(policyWords, policySchema)
	s.OneOf = []*jsonschema.Schema{{Required: []string{"limit"}}, {Required: []string{"limits"}}}
	s.Not = &jsonschema.Schema{
		Required:   []string{"denied", "batch"},
		Properties: map[string]*jsonschema.Schema{"denied": constant(counted), "batch": constant(partial)},
	}
	return s
}

func overrideObject() *jsonschema.Schema {
	s := required(object(overrideWords, overrideSchema), "for", "until", "why")
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"limit"}}, {Required: []string{"limits"}}, {Required: []string{"plan"}}}
	s.Not = &jsonschema.Schema{Required: []string{"limit", "limits"}}
	return s
}

func required(s *jsonschema.Schema, words ...string) *jsonschema.Schema {
	s.Required = words
	return s
}

func limitObject() *jsonschema.Schema {
	line := pattern(linePattern)
	line.Description = "COUNT [unit] per WINDOW {per KEY} [, fixed [from the first hit]] [, DURATION apart] [, burst N] [, from DAY] [, in ZONE] [, then block DURATION], or COUNT at once {per KEY}, for at most DURATION, or unlimited {per KEY}"
	line.Examples = []any{"10 per minute per user, 3s apart", "200_000 cents per day per account", "5 failures per 15m per user, then block 1h", "1_000 per day per tenant, fixed",
		"10 per second per ip, burst 20", "10_000 per month per account, fixed, from the 14th, in America/New_York", "20 at once per user, for at most 30s"}
	long := object(limitWords, limitSchema)
	long.Required = []string{"max"}
	long.AnyOf = []*jsonschema.Schema{
		{Required: []string{"window"}},
		{Required: []string{"max_hold"}},
		{Properties: map[string]*jsonschema.Schema{"max": constant(wordUnlimited)}},
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{line, long}}
}

func constant(value any) *jsonschema.Schema { return &jsonschema.Schema{Const: &value} }

// wordSchema describes one word of a map for editors.
type wordSchema struct {
	name   string
	values *jsonschema.Schema
	help   string
}

// The words of each map, in the order of its table.
var (
	fileSchema = []wordSchema{
		{"version", constant(1),
			"The version of the file's language: 1."},
		{"policies", mapOf("policy", nil),
			"The policies by name. Names are [a-z0-9][a-z0-9._-]{0,63}. Histories belong to the name, so a renamed policy starts afresh."},
		{"tests", &jsonschema.Schema{Type: "object", AdditionalProperties: ref("test"), MinProperties: jsonschema.Ptr(1)},
			"The intended behaviour, a sentence for each test. weir test runs them in virtual time."},
	}
	policySchema = []wordSchema{
		{"about", &jsonschema.Schema{Type: "string"},
			"The purpose of the policy, in a sentence for people."},
		{"limit", ref("limit"),
			"The only limit of the policy, such as: 10 messages per day per phone, 3s apart. Windows roll unless the limit is fixed."},
		{"limits", mapOf("limit", jsonschema.Ptr(weir.MaxLimits)),
			"Several limits by name, decided together: an attempt that one denies is charged to none."},
		{"denied", oneOf(deniedValues),
			"free: a denied attempt costs nothing. counted: it counts like any other, so a key that keeps trying stays denied."},
		{"batch", oneOf(batchValues),
			"whole: an attempt of several units gets all of them or none. partial: it gets as many as fit."},
		{"cells", number(maxCells),
			"0: windows are exact. N: instants are rounded to a grid of N cells a window, which bounds memory and denies up to 1/(N+1) more, never less. Fixed windows need none."},
		{"warn", pattern(sharePattern),
			"The share of each limit at which a grant carries a warning, such as 80%: the grant that brings the use to it or above. A limit may have a share of its own."},
		{"when-store-is-down", oneOf(storeDownValues),
			"The decision while the store is unreachable. deny: none is granted. allow: all are granted. share: each process grants its share of the limits."},
		{"count", oneOf(countValues),
			"attempts: a granted attempt is charged. reported: an attempt is only a peek; records are charged later, such as failed logins."},
		{"shadow", &jsonschema.Schema{Type: "boolean"},
			"true: attempts are decided and counted, and all are allowed. This shows the effect of a limit."},
		{"costs", &jsonschema.Schema{Type: "object", AdditionalProperties: numberOr(weir.MaxUnits, requestedUnits), MinProperties: jsonschema.Ptr(1)},
			"The units that an attempt of n units takes of each limit: n, or a fixed number, as in {requests: 1, tokens: n}. Default: n of each."},
		{"plan-by", ref("name"),
			"The value sent with the key, such as plan, that names one of the plans. Other values, or none, get the policy's own limits."},
		{"plans", mapOf("plan", nil),
			"Other numbers for the limits, by the name of a plan. Windows, their kind and keys stay. A key that changes its plan keeps its history."},
		{"overrides", listOf("override"),
			"Other numbers for some keys, until a day and for a reason. The first that has not expired applies."},
	}
	overrideSchema = []wordSchema{
		{"for", ref("values"),
			"The keys it applies to: values of one or more of the keys that the policy counts by."},
		{"limit", ref("limit"),
			"The limit in place of the policy's only limit. The keys may be left out."},
		{"limits", mapOf("limit", jsonschema.Ptr(weir.MaxLimits)),
			"The limits in place of the policy's limits, by name. Those that are not named stay."},
		{"plan", ref("name"),
			"The plan that applies, instead of the one that the request selects."},
		{"until", pattern("(" + forever + "|" + instantPattern + ")"),
			"The last day on which it applies, to its end in UTC, or an instant, or forever. Afterwards it has no effect."},
		{"why", &jsonschema.Schema{Type: "string"},
			"The reason, for readers of the file and of answers."},
	}
	limitSchema = []wordSchema{
		{"max", numberOr(weir.MaxUnits, wordUnlimited),
			"The largest number of units in any window, or unlimited."},
		{"window", pattern(windowPattern),
			"The length of the window: second, minute, hour, day, week, or a length such as 30m. month with kind: fixed."},
		{"per", anyOf(ref("key"), &jsonschema.Schema{Type: "array", Items: ref("key"), UniqueItems: true}),
			"The keys that the limit counts by, one or a list. Without, all callers share it."},
		{"apart", pattern(lengthPattern),
			"The least time between two grants, such as 3s; at most the window."},
		{"block", pattern(lengthPattern),
			"The time for which a key is denied after the limit has denied an attempt of it, such as 1h; 1ms to 400d."},
		{"kind", oneOf(answer.KindWords[:]),
			"Where windows begin. rolling: everywhere, so never more than max in any. fixed: with the calendar, at multiples of the window since 1970, UTC; weeks begin on Monday and months on the 1st. fixed_from_first: with the first unit after the last one ended. Across the edge of two fixed windows up to twice max passes. bucket: no windows; max per window flow into a bucket of burst units. concurrency: at most max units are held at any instant."},
		{"unit", pattern(unitPattern),
			"The counted unit, in one word such as messages or cents. It is for people only."},
		{"warn", pattern(sharePattern),
			"The share of max at which a grant carries a warning, such as 80%: the grant that brings the use to it or above."},
		{"burst", number(weir.MaxUnits),
			"The capacity of a bucket, which refills by max per window: the units that are there after a pause. Default with kind: bucket: max."},
		{"zone", pattern(zonePattern),
			"With kind: fixed, the time zone by whose clock hours, days, weeks and months begin, such as Europe/Berlin. Default: UTC."},
		{"from", anyOf(&jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(1.0), Maximum: jsonschema.Ptr(31.0)}, pattern(dayPattern)),
			"With kind: fixed, the first day of a month, such as 14th, or of a week, such as sunday. A day beyond the month's end is its last day."},
		{"max_hold", pattern(lengthPattern),
			"Of a concurrency limit, the longest time for which a unit is held without a settlement, such as 30s; 1ms to 400d."},
	}
	testSchemaIsMadeOfTheWords = []wordSchema{
		{"policy", ref("name"),
			"The policy to test."},
		{"from", pattern(instantPattern),
			"The instant of 0s, a day or an instant. Without, an instant at which every override applies."},
		{"key", ref("values"),
			"The key of the steps that name none."},
		{"steps", listOf("step"),
			"The steps in the order of their instants. A test begins with empty histories."},
	}
	stepSchema = []wordSchema{
		{"at", pattern(lengthPattern),
			"The time since the beginning of the test. Without, the instant of the step above."},
		{"do", oneOf(doValues),
			"check: an attempt. peek: a decision that charges nothing. record: units without a decision. reset: delete the histories of the key."},
		{"key", ref("values"),
			"The key, with the value that names a plan if there is one."},
		{"n", number(weir.MaxUnits),
			"The number of units. Without, 1."},
		{"times", number(maxTimes),
			"The number of repetitions at the same instant. Each must meet the expectation."},
		{"expect", &jsonschema.Schema{Enum: []any{expectValues[0], expectValues[1]}},
			"allowed or denied: the decision, enforced or not."},
		{"granted", number(weir.MaxUnits),
			"The units granted."},
		{"remaining", anyOf(&jsonschema.Schema{Type: "integer"}, pattern("-?"+numberPattern)),
			"The smallest remaining room of all limits afterwards. It can be below 0 after a record."},
		{"retry", pattern("(never|" + lengthPattern + ")"),
			"The exact wait until the same request fits, such as 57s, or never; 0s if it fits now."},
		{"limit", ref("name"),
			"The limit that denied the request, or none."},
		{"warning", &jsonschema.Schema{Type: "boolean"},
			"true: the grant carries the warning of a limit with warn. false: it carries none."},
	}
)

// object is the schema of a map of words. Each word of the table has a description.
func object[T any](words []word[T], described []wordSchema) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		Properties:           map[string]*jsonschema.Schema{},
		PropertyOrder:        names(words),
	}
	if len(words) != len(described) {
		panic(fmt.Sprintf("%d words, but %d descriptions", len(words), len(described)))
	}
	for i, w := range words {
		if described[i].name != w.name {
			panic(fmt.Sprintf("the description of %s stands in the place of %s", described[i].name, w.name))
		}
		value := described[i].values
		value.Description = described[i].help
		s.Properties[w.name] = value
	}
	return s
}

// oneOf is one of some words, the first by default.
func oneOf(words []string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	s.Default, _ = json.Marshal(words[0])
	return s
}

func anyOf(all ...*jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{AnyOf: all} }

// numberOr is a number, or a word in its place.
func numberOr(most int64, word string) *jsonschema.Schema {
	s := number(most)
	s.AnyOf = append(s.AnyOf, constant(word))
	return s
}

// mapOf is a map of names to something defined, which is not empty.
func mapOf(name string, most *int) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", PropertyNames: ref("name"), AdditionalProperties: ref(name), MinProperties: jsonschema.Ptr(1), MaxProperties: most}
}

// listOf is a list of something defined, which is not empty.
func listOf(name string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: ref(name), MinItems: jsonschema.Ptr(1)}
}

// number is a whole number, or its digits in groups.
func number(most int64) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: jsonschema.Ptr(0.0), Maximum: jsonschema.Ptr(float64(most))},
		pattern(numberPattern),
	}}
}
