// Package docs_test checks the documentation: rules name vectors and tests that exist,
// links have targets, and snippets are parts of programs that compile.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// root is the module's directory, seen from here.
const root = "../../../.."

// pages are all files of Markdown, relative to root.
func pages(t *testing.T) []string {
	t.Helper()
	return files(t, func(path string) bool { return strings.HasSuffix(path, ".md") })
}

// files returns the paths of the files that match, relative to root and with slashes.
// It skips data of tests, hidden directories but .github, installed modules of npm, and the
// programs of make build.
func files(t *testing.T, match func(path string) bool) []string {
	t.Helper()
	var found []string
	must.Do(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if entry.IsDir() && path != "." && (name == "testdata" || name == "node_modules" || path == "bin" || name[0] == '.' && name != ".github") {
			return fs.SkipDir
		}
		if err == nil && !entry.IsDir() && match(path) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// glob returns the paths under root that match, relative to root.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	return must.Get(fs.Glob(os.DirFS(root), path.Clean(pattern)))(t)
}

// read returns the file at a path relative to root.
func read(t *testing.T, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(root, path)))(t))
}

// output runs a command and returns its standard output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}

var (
	ruleHeading = regexp.MustCompile(`(?m)^### (R\d+) .+$`)
	promise     = regexp.MustCompile(`(?m)^- \*\*(D\d+)\*\* `)
	ruleCited   = regexp.MustCompile(`\b[RD][1-9]\d?\b`)
	ruleRange   = regexp.MustCompile(`\bR1\s+(?:to|–|…|\.\.\.|through)\s+(?://\s+)?(R\d+)\b`)
	ruleCount   = regexp.MustCompile(`(?i)\b(\w+)\s+rules, each\b`)
	exampleName = regexp.MustCompile("`(Example\\w*)`")
	vectorPath  = regexp.MustCompile(`\]\(\.\./(weirtest/testdata/[^)]+)\)`)

	vectorHeading = regexp.MustCompile(`(?m)^# (R\d+(?:, R\d+)*):`)
)

// rules returns the text of each rule of semantics.md, in order of appearance.
func rules(t *testing.T) (names []string, text map[string]string) {
	t.Helper()
	page := read(t, "docs/semantics.md")
	text = map[string]string{}
	headings := ruleHeading.FindAllStringSubmatchIndex(page, -1)
	for i, h := range headings {
		end := len(page)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		name := page[h[2]:h[3]]
		names = append(names, name)
		text[name] = page[h[1]:end]
	}
	return names, text
}

// TestCitedRulesExist: rules and promises that any file cites are in semantics.md. A range
// from R1 on ends with the last rule, and a count of the rules is theirs. The page names each
// number that no rule has.
func TestCitedRulesExist(t *testing.T) {
	names, _ := rules(t)
	var want []string
	for n := 1; len(want) < len(names); n++ {
		if !strings.Contains(read(t, "docs/semantics.md"), fmt.Sprintf("\nNo rule has the number %d.\n", n)) {
			want = append(want, fmt.Sprintf("R%d", n))
		}
	}
	if !slices.Equal(names, want) {
		t.Fatalf("semantics.md has the rules %q, want %q", names, want)
	}
	known := slices.Clone(names)
	for _, m := range promise.FindAllStringSubmatch(read(t, "docs/semantics.md"), -1) {
		known = append(known, m[1])
	}
	count := map[int]string{15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twenty"}[len(names)]
	for _, file := range files(t, isText) {
		text := read(t, file)
		for _, cited := range ruleCited.FindAllString(text, -1) {
			if !slices.Contains(known, cited) {
				t.Errorf("%s cites %s, which semantics.md does not have", file, cited)
			}
		}
		for _, m := range ruleRange.FindAllStringSubmatch(text, -1) {
			if last := names[len(names)-1]; m[1] != last {
				t.Errorf("%s: %q, but the last rule is %s", file, m[0], last)
			}
		}
		for _, m := range ruleCount.FindAllStringSubmatch(text, -1) {
			if got := strings.ToLower(m[1]); got != count && got != strconv.Itoa(len(names)) {
				t.Errorf("%s: %q, but there are %d", file, m[0], len(names))
			}
		}
	}
}

// isText reports whether a file has text for readers: pages, programs, scripts, files of
// configuration. The hashes of package-lock.json may look like rules.
func isText(path string) bool {
	return filepath.Base(path) != "package-lock.json" && slices.Contains([]string{".md", ".go", ".lua", ".txt", ".yaml", ".yml", ".tmpl", ".json"}, filepath.Ext(path))
}

func TestEveryRuleRuns(t *testing.T) {
	names, text := rules(t)
	examples := examplesOfRoot(t)
	for _, name := range names {
		if !strings.Contains(text[name], "\n*Why.* ") {
			t.Errorf("%s gives no reason: no paragraph begins with *Why.*", name)
		}
		_, runs, _ := strings.Cut(text[name], "\n*Runs.* ")
		found := exampleName.FindAllStringSubmatch(runs, -1)
		for _, m := range found {
			if !slices.Contains(examples, m[1]) {
				t.Errorf("%s names %s, which is no example of the package", name, m[1])
			}
		}
		vectors := vectorPath.FindAllStringSubmatch(runs, -1)
		for _, m := range vectors {
			if !slices.Contains(quoted(t, m[1]), name) {
				t.Errorf("%s names %s, where no vector quotes it", name, m[1])
			}
		}
		if len(found) == 0 || len(vectors) == 0 {
			t.Errorf("%s names %d examples and %d files of vectors after *Runs.*, want at least one of each", name, len(found), len(vectors))
		}
	}
}

// quoted returns the rules that the headings of a file of vectors quote.
func quoted(t *testing.T, path string) []string {
	t.Helper()
	var names []string
	for _, m := range vectorHeading.FindAllStringSubmatch(read(t, path), -1) {
		names = append(names, strings.Split(m[1], ", ")...)
	}
	return names
}

// TestEveryVectorIsFound: each file of vectors is named by a rule it quotes.
func TestEveryVectorIsFound(t *testing.T) {
	page := read(t, "docs/semantics.md")
	for _, path := range glob(t, "weirtest/testdata/*.txt") {
		if !strings.Contains(page, "](../"+path+")") {
			t.Errorf("%s is not named in semantics.md", path)
		}
	}
}

// TestEveryExampleIsFound: every example is linked from a page or from examples/README.md.
// An example of a name needs no link, because godoc shows it beside the name.
func TestEveryExampleIsFound(t *testing.T) {
	var text strings.Builder
	for _, page := range pages(t) {
		text.WriteString(read(t, page))
	}
	for _, name := range examplesOfRoot(t) {
		if strings.HasPrefix(name, "Example_") && !strings.Contains(text.String(), "`"+name+"`") {
			t.Errorf("%s is named on no page", name)
		}
	}
}

// examplesOfRoot returns the names of the example functions beside the root package.
func examplesOfRoot(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, path := range glob(t, "example*_test.go") {
		file := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution))(t)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
