package yamlnode

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// suiteCase is a case of github.com/yaml/yaml-test-suite (MIT licence): a text,
// its value as JSON, or the mark that it must be rejected.
type suiteCase struct {
	Name  string
	YAML  string
	JSON  []any // one value a document; nil where the suite gives none
	Error bool
}

// readAnyway are the texts of the suite that YAML forbids and the library reads.
var readAnyway = map[string]bool{
	"block-scalar-with-more-spaces-than-first-content-line": true,
	"tabs-in-various-contexts/003":                          true,
	"tabs-that-look-like-indentation/01":                    true,
	"wrong-indented-flow-sequence":                          true,
	"wrong-indented-multiline-quoted-scalar":                true,
}

// TestYAMLTestSuite: texts are read as the suite defines, or rejected, and texts that YAML
// forbids are rejected except those that the library reads.
func TestYAMLTestSuite(t *testing.T) {
	read := 0
	for _, c := range suite(t) {
		d, err := Read([]byte(c.YAML))
		if err != nil {
			checkError(t, d, err)
			continue
		}
		read++
		if c.Error != readAnyway[c.Name] {
			t.Errorf("%s: forbidden %t, listed %t:\n%s", c.Name, c.Error, readAnyway[c.Name], c.YAML)
		}
		for len(c.JSON) > 1 && c.JSON[len(c.JSON)-1] == nil { // empty documents at the end are ignored
			c.JSON = c.JSON[:len(c.JSON)-1]
		}
		if got := []any{value(&d.Root)}; c.JSON != nil && !c.Error && !reflect.DeepEqual(got, c.JSON) {
			t.Errorf("%s:\n%s\ngot  %#v\nwant %#v", c.Name, c.YAML, got, c.JSON)
		}
	}
	if read < 150 {
		t.Errorf("%d texts are read, want at least 150", read)
	}
}

func suite(t testing.TB) (cases []suiteCase) {
	t.Helper()
	f, err := os.Open("testdata/yaml-test-suite.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c suiteCase
		must.Do(t, json.Unmarshal(lines.Bytes(), &c))
		cases = append(cases, c)
	}
	if len(cases) < 400 {
		t.Fatalf("the suite has %d cases, want 402", len(cases))
	}
	return cases
}

// value returns the node as encoding/json would have read it.
func value(n *Node) any {
	switch n.Type() {
	case "map":
		m := map[string]any{}
		for k, v := range n.Pairs() {
			m[k.Text] = value(v)
		}
		return m
	case "list":
		list := []any{}
		for item := range n.Items() {
			list = append(list, value(item))
		}
		return list
	case "nothing":
		return nil
	case "boolean":
		return strings.ToLower(n.Text) == "true"
	case "integer", "number":
		return number(n.Text)
	}
	return n.Text
}

// number is exact enough to tell the suite's numbers apart.
func number(s string) any {
	if i, err := strconv.ParseInt(strings.Replace(s, "0o", "0", 1), 0, 64); err == nil && strings.HasPrefix(s, "0") {
		return float64(i)
	}
	f, err := strconv.ParseFloat(strings.TrimPrefix(strings.ToLower(s), "."), 64)
	if strings.HasPrefix(s, ".") && err == nil && !strings.ContainsAny(s, "ni") {
		f, err = strconv.ParseFloat(s, 64)
	}
	if err != nil {
		return s
	}
	return f
}
