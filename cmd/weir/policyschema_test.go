package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/txtar"
	"github.com/weirlimit/weir/internal/yamlnode"
	"github.com/weirlimit/weir/policy"
)

// policies is the directory of package policy, with its schema and the files of its tests.
const policies = "../../policy"

// TestSchemaAgreesWithParse: the schema accepts each file that Parse accepts, and rejects most
// of the others. The golden file lists both verdicts. Files that are not YAML are left out,
// because a schema checks parsed values.
func TestSchemaAgreesWithParse(t *testing.T) {
	schema := policySchema(t)
	good := policyFiles(t, "testdata/good.txtar")
	var err error
	good["demo"], err = os.ReadFile("demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range good {
		value, err := yamlValue(src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: Parse takes it, the schema does not: %v", name, err)
		}
	}
	var verdicts []string
	for name, src := range policyFiles(t, "testdata/bad-*.txtar") {
		value, err := yamlValue(src)
		if err != nil {
			continue
		}
		verdict := "refused"
		if schema.Validate(value) == nil {
			verdict = "taken: only Parse knows"
		}
		verdicts = append(verdicts, fmt.Sprintf("%-34s %s\n", name+".yaml", verdict))
	}
	slices.Sort(verdicts)
	const golden = "testdata/schema.golden"
	got := strings.Join(verdicts, "")
	if *rewrite {
		must.Do(t, os.WriteFile(filepath.Join(policies, golden), []byte(got), 0o644))
	} else if want := string(readPolicies(t, golden)); got != want {
		for _, line := range verdicts {
			if !strings.Contains(want, line) {
				t.Errorf("%s has no line %q", golden, line)
			}
		}
		t.Errorf("%s: after reading the difference, run with -rewrite", golden)
	}
}

// FuzzSchema: the schema accepts each file that Parse accepts.
func FuzzSchema(f *testing.F) {
	for _, src := range policyFiles(f, "testdata/*.txtar") {
		f.Add(src)
	}
	schema := policySchema(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		if _, err := policy.Parse("fuzz.yaml", src); err != nil {
			return
		}
		value, err := yamlValue(src)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%q: Parse takes it, the schema does not: %v", src, err)
		}
	})
}

func readPolicies(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(policies, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// policyFiles returns the policy files in the archives of package policy, by name.
func policyFiles(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(policies, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
	}
	found := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(text).Files {
			name, ending, _ := strings.Cut(f.Name, ".")
			switch ending {
			case "yaml":
				found[name] = f.Data
			case "quoted": // bytes that an editor does not show, as a Go string
				src, err := strconv.Unquote(strings.TrimSpace(string(f.Data)))
				if err != nil {
					t.Fatalf("%s: %s: %v", path, f.Name, err)
				}
				found[name] = []byte(src)
			}
		}
	}
	return found
}

func policySchema(t testing.TB) *validator.Schema {
	t.Helper()
	document, err := validator.UnmarshalJSON(bytes.NewReader(readPolicies(t, "weir.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	must.Do(t, c.AddResource("weir.schema.json", document))
	rules, err := c.Compile("weir.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// yamlValue reads a file as an editor would, into the values of encoding/json.
func yamlValue(src []byte) (any, error) {
	doc, err := yamlnode.Read(src)
	if err != nil {
		return nil, errors.New(err.Problem)
	}
	return jsonValueOf(&doc.Root), nil
}

func jsonValueOf(n *yamlnode.Node) any {
	switch n.Type() {
	case "map":
		m := map[string]any{}
		for key, value := range n.Pairs() {
			m[key.Text] = jsonValueOf(value)
		}
		return m
	case "list":
		list := []any{}
		for item := range n.Items() {
			list = append(list, jsonValueOf(item))
		}
		return list
	case "integer", "number":
		if value, err := strconv.ParseFloat(n.Text, 64); err == nil && !strings.Contains(n.Text, "_") {
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
