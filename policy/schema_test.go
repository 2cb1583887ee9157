package policy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// schema has the members of a JSON Schema that the test reads.
type schema struct {
	Description, Pattern string
	Enum                 []string
	Properties           map[string]*schema
	AnyOf                []*schema
	Not                  *schema
	Defs                 map[string]*schema `json:"$defs"`
}

// TestSchemaHasTheWords: weir.schema.json describes each word that Parse reads, with the same
// values and the same forms. A test of cmd/weir compares its verdicts on files with those of
// Parse.
func TestSchemaHasTheWords(t *testing.T) {
	var file schema
	must.Do(t, json.Unmarshal(readFile(t, "weir.schema.json"), &file))
	def := func(name string) *schema { return file.Defs[name] }
	line, long := def("limit").AnyOf[0], def("limit").AnyOf[1]
	for of, c := range map[string]struct {
		schema *schema
		words  []string
	}{
		aFile: {&file, names(fileWords)}, aPolicy: {def("policy"), names(policyWords)}, aLimit: {long, names(limitWords)},
		anOverride: {def("override"), names(overrideWords)}, aTest: {def("test"), names(testWords)}, aStep: {def("step"), names(stepWords)},
	} {
		for _, word := range c.words {
			if p := c.schema.Properties[word]; p == nil || p.Description == "" {
				t.Errorf("the schema has no description of %s, a word of %s", word, of)
			}
		}
		assert.Equal(t, len(c.schema.Properties), len(c.words), "words of the schema of %s, which has %q", of, c.words)
	}
	for _, c := range []struct {
		of     *schema
		word   string
		values []string
	}{
		{def("policy"), "denied", deniedValues}, {def("policy"), "batch", batchValues}, {def("policy"), "count", countValues},
		{def("policy"), "when-store-is-down", storeDownValues}, {long, "kind", answer.KindWords[:]},
		{def("step"), "do", doValues}, {def("step"), "expect", expectValues},
	} {
		assert.Equal(t, fmt.Sprintf("%q", c.of.Properties[c.word].Enum), fmt.Sprintf("%q", c.values), "%s: the values of the schema", c.word)
	}
	matches := func(s *schema, text string) {
		t.Helper()
		if !regexp.MustCompile(s.Pattern).MatchString(text) {
			t.Errorf("%q does not match the pattern %s of the schema", text, s.Pattern)
		}
	}
	for text := range strings.Lines(string(readFile(t, "testdata/lines.txt"))) {
		text = strings.TrimSuffix(text, "\n")
		if _, err := parseLimit(text); err == nil {
			matches(line, text)
		}
	}
	notKey := def("key").Not
	for _, name := range []string{wordPer, wordApart} {
		matches(notKey, name)
	}
	for _, w := range windows {
		matches(line, "1 per "+w.name)
		matches(long.Properties["window"], w.name)
		matches(notKey, w.name)
		matches(notKey, w.name+"s")
	}
	for _, unit := range duration.Units {
		matches(line, "1 per 1"+unit.Name)
		matches(long.Properties["apart"], "1_0"+unit.Name)
		matches(notKey, "1"+unit.Name)
	}
	for _, day := range append(slices.Clone(weekdays), "1st", "22nd", "3rd", "31st") {
		matches(line, "1 per month, fixed from the "+day)
		matches(long.Properties["from"].AnyOf[1], day)
	}
	for _, zone := range zones() {
		matches(line, "1 per day, fixed in "+zone)
		matches(long.Properties["zone"], zone)
	}
	for want, got := range map[string]string{
		unitPattern: long.Properties["unit"].Pattern, sharePattern: def("policy").Properties["warn"].Pattern,
	} {
		assert.Equal(t, got, "^"+want+"$", "pattern of the schema")
	}
}
