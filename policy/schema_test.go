package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

// TestSchema: the schema that is checked in is made of the words Parse reads by.
func TestSchema(t *testing.T) {
	made, err := json.Marshal(makeSchema())
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, append(made, '\n'), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "weir.schema.json", indented.Bytes())
	if !*rewrite && !bytes.Equal(Schema(), indented.Bytes()) {
		t.Error("Schema() is not weir.schema.json")
	}
}

// TestSchemaAgrees: the schema accepts all that Parse accepts, and rejects most that Parse
// rejects; the golden file lists both verdicts. Files that are no YAML for Parse are left
// out, because a schema sees only parsed values.
func TestSchemaAgrees(t *testing.T) {
	schema := compiledSchema(t)
	for _, file := range append(inputs(t, "testdata/good"), "demo.yaml") {
		value, err := readYAML(readFile(t, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: Parse takes it, the schema does not: %v", file, err)
		}
	}
	var verdicts strings.Builder
	for _, file := range inputs(t, "testdata/bad") {
		value, err := readYAML(readFile(t, file))
		if err != nil {
			continue
		}
		verdict := "refused"
		if schema.Validate(value) == nil {
			verdict = "taken: only Parse knows"
		}
		fmt.Fprintf(&verdicts, "%-34s %s\n", filepath.Base(file), verdict)
	}
	golden(t, "testdata/schema.golden", []byte(verdicts.String()))
}

func compiledSchema(t testing.TB) *validator.Schema {
	t.Helper()
	document, err := validator.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("weir.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("weir.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// readYAML reads a file as an editor would, into the values of encoding/json.
func readYAML(src []byte) (any, error) {
	doc, err := strictyaml.Read(src)
	if err != nil {
		return nil, err
	}
	return asJSON(&doc.Root), nil
}

func asJSON(n *strictyaml.Node) any {
	switch n.Type() {
	case "map":
		m := map[string]any{}
		for key, value := range n.Pairs() {
			m[key.Text] = asJSON(value)
		}
		return m
	case "list":
		list := []any{}
		for item := range n.Items() {
			list = append(list, asJSON(item))
		}
		return list
	case "integer", "number":
		if value, err := strconv.ParseFloat(n.Text, 64); err == nil {
			return value
		}
		return n.Text
	case "boolean":
		return n.Text[0]|0x20 == 't'
	case "nothing":
		return nil
	}
	return n.Text
}

// Patterns of the grammar, made of the tables it is read by.
var (
	numberPattern  = `(0|[1-9][0-9]*(_[0-9]+)*)`
	lengthPattern  = numberPattern + `(` + suffixes() + `)`
	windowPattern  = `(` + windowNames() + `|` + lengthPattern + `)`
	unitPattern    = `[A-Za-z][A-Za-z0-9_-]{0,31}`
	instantPattern = `[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2}))?`
	namePattern    = `[a-z0-9][a-z0-9._-]{0,63}`
	linePattern    = fmt.Sprintf(`\s*(%[1]s(\s+%[2]s)?\s+%[3]s\s+%[4]s|%[5]s(\s+%[2]s)?(\s+%[3]s\s+%[4]s)?)(\s+%[3]s\s+%[6]s)*(\s*,\s*%[11]s)?(\s*,\s*%[7]s\s+%[8]s)?(\s*,\s*%[9]s\s+%[10]s\s+%[7]s)?\s*`,
		numberPattern, unitPattern, wordPer, windowPattern, wordUnlimited, namePattern, lengthPattern, wordApart, wordThen, wordBlock,
		wordFixed+`(\s+`+strings.Join(fromFirstHit, `\s+`)+`)?`)
)

func suffixes() string {
	var all []string
	for _, l := range lengths {
		all = append(all, l.suffix)
	}
	return strings.Join(all, "|")
}

func windowNames() string {
	var all []string
	for _, w := range windows {
		all = append(all, w.name)
	}
	return strings.Join(all, "|")
}

func pattern(p string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: "^" + p + "$"}
}

func ref(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }

func makeSchema() *jsonschema.Schema {
	s := object(fileWords)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Weir policy file"
	s.Description = "Rate limits, one line each, in the words a person would say. Windows roll unless a limit says fixed."
	s.Required = requiredWords
	s.Defs = map[string]*jsonschema.Schema{
		"name":     pattern(namePattern),
		"key":      keySchema(),
		"policy":   policySchema(),
		"limit":    limitSchema(),
		"plan":     {AnyOf: []*jsonschema.Schema{pattern(linePattern), mapOf("limit", jsonschema.Ptr(weir.MaxLimits))}},
		"override": overrideSchema(),
		"values":   {Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}},
		"test":     required(object(testWords), "policy", "steps"),
		"step":     object(stepWords),
	}
	return s
}

// keySchema is a name that is no word of the grammar, nor the plural of one.
func keySchema() *jsonschema.Schema {
	s := pattern(namePattern)
	s.Not = pattern(fmt.Sprintf(`(%ss?|%s|%s)`, windowPattern, wordPer, wordApart))
	return s
}

func policySchema() *jsonschema.Schema {
	s := object(policyWords)
	s.OneOf = []*jsonschema.Schema{{Required: []string{"limit"}}, {Required: []string{"limits"}}}
	s.Not = &jsonschema.Schema{
		Required:   []string{"denied", "batch"},
		Properties: map[string]*jsonschema.Schema{"denied": constant(counted), "batch": constant(partial)},
	}
	return s
}

func overrideSchema() *jsonschema.Schema {
	s := required(object(overrideWords), "for", "until", "why")
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"limit"}}, {Required: []string{"limits"}}, {Required: []string{"plan"}}}
	s.Not = &jsonschema.Schema{Required: []string{"limit", "limits"}}
	return s
}

func required(s *jsonschema.Schema, words ...string) *jsonschema.Schema {
	s.Required = words
	return s
}

func limitSchema() *jsonschema.Schema {
	line := pattern(linePattern)
	line.Description = "COUNT [unit] per WINDOW {per KEY} [, fixed [from the first hit]] [, DURATION apart] [, then block DURATION], or unlimited {per KEY}"
	line.Examples = []any{"10 per minute per user, 3s apart", "200_000 cents per day per account", "5 failures per 15m per user, then block 1h", "1_000 per day per tenant, fixed"}
	long := object(limitWords)
	long.Required = []string{"max"}
	long.AnyOf = []*jsonschema.Schema{
		{Required: []string{"window"}},
		{Properties: map[string]*jsonschema.Schema{"max": constant(wordUnlimited)}},
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{line, long}}
}

func constant(value any) *jsonschema.Schema { return &jsonschema.Schema{Const: &value} }

// object is the schema of a map of words.
func object[T any](words []word[T]) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		Properties:           map[string]*jsonschema.Schema{},
		PropertyOrder:        names(words),
	}
	for _, w := range words {
		value := taken(w.takes)
		value.Description = w.help
		for _, v := range w.values {
			value.Enum = append(value.Enum, v)
		}
		if len(w.values) > 0 {
			value.Default, _ = json.Marshal(w.values[0])
		}
		s.Properties[w.name] = value
	}
	return s
}

// taken returns the schema of the values of a word.
func taken(what takes) *jsonschema.Schema {
	switch what {
	case takesVersion:
		return constant(1)
	case takesPolicies:
		return mapOf("policy", nil)
	case takesLimits:
		return mapOf("limit", jsonschema.Ptr(weir.MaxLimits))
	case takesLimit:
		return ref("limit")
	case takesText, takesChoice:
		return &jsonschema.Schema{Type: "string"}
	case takesCells:
		return number(maxCells)
	case takesMax:
		s := number(weir.MaxUnits)
		s.AnyOf = append(s.AnyOf, constant(wordUnlimited))
		return s
	case takesUnit:
		return pattern(unitPattern)
	case takesWindow:
		return pattern(windowPattern)
	case takesLength:
		return pattern(lengthPattern)
	case takesKeys:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{ref("key"), {Type: "array", Items: ref("key"), UniqueItems: true}}}
	}
	return takenFurther(what)
}

// takenFurther is taken for plans, overrides and tests.
func takenFurther(what takes) *jsonschema.Schema {
	switch what {
	case takesSwitch:
		return &jsonschema.Schema{Type: "boolean"}
	case takesName:
		return ref("name")
	case takesCosts:
		cost := number(weir.MaxUnits)
		cost.AnyOf = append(cost.AnyOf, constant(requestedUnits))
		return &jsonschema.Schema{Type: "object", AdditionalProperties: cost, MinProperties: jsonschema.Ptr(1)}
	case takesPlans:
		return mapOf("plan", nil)
	case takesOverrides:
		return listOf("override")
	case takesValues:
		return ref("values")
	case takesEnd:
		return pattern("(" + forever + "|" + instantPattern + ")")
	case takesInstant:
		return pattern(instantPattern)
	case takesTests:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: ref("test"), MinProperties: jsonschema.Ptr(1)}
	case takesSteps:
		return listOf("step")
	case takesUnits:
		return number(weir.MaxUnits)
	case takesTimes:
		return number(maxTimes)
	case takesWhole:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "integer"}, pattern("-?" + numberPattern)}}
	case takesWait:
		return pattern("(never|" + lengthPattern + ")")
	case takesExpect:
		return &jsonschema.Schema{Enum: []any{expectValues[0], expectValues[1]}}
	}
	panic(fmt.Sprintf("no schema of %d", what))
}

// mapOf is a map of names to something defined, which is not empty.
func mapOf(what string, most *int) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", PropertyNames: ref("name"), AdditionalProperties: ref(what), MinProperties: jsonschema.Ptr(1), MaxProperties: most}
}

// listOf is a list of something defined, which is not empty.
func listOf(what string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: ref(what), MinItems: jsonschema.Ptr(1)}
}

// number is a whole number, or its digits in groups.
func number(most int64) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: jsonschema.Ptr(0.0), Maximum: jsonschema.Ptr(float64(most))},
		pattern(numberPattern),
	}}
}
