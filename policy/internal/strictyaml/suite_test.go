package strictyaml

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing with them")

// suiteCase is a case of github.com/yaml/yaml-test-suite (MIT licence): a text,
// its value as JSON, or the mark that it must be rejected.
type suiteCase struct {
	Name  string
	YAML  string
	JSON  []any // one value a document; nil where the suite gives none
	Error bool
}

// TestYAMLTestSuite: texts are read as the suite defines, or rejected, and texts that YAML forbids
// are always rejected. The golden file lists the errors.
func TestYAMLTestSuite(t *testing.T) {
	var outcome bytes.Buffer
	for _, c := range suite(t) {
		d, err := Read([]byte(c.YAML))
		switch {
		case err != nil:
			line, column, _ := d.Position(err.(*Error).Offset)
			fmt.Fprintf(&outcome, "%-70s %d:%d: %v\n", c.Name, line, column, err)
			continue
		case c.Error:
			t.Errorf("%s: read, but YAML forbids it:\n%s", c.Name, c.YAML)
		case c.JSON != nil:
			if got := []any{value(&d.Root)}; !reflect.DeepEqual(got, c.JSON) {
				t.Errorf("%s:\n%s\ngot  %#v\nwant %#v", c.Name, c.YAML, got, c.JSON)
			}
		}
		fmt.Fprintf(&outcome, "%-70s read\n", c.Name)
	}
	golden(t, "testdata/yaml-test-suite.golden", outcome.Bytes())
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
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
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

// golden compares got with the file, or writes it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run with -rewrite, then read the difference", file)
	}
}
