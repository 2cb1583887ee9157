// Package docs_test keeps the pages true: their snippets compile, their policies parse, their
// commands run, and the links, names and errors on them exist.
package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/markdown"
)

// root is the directory of the checkout, seen from here.
const root = "../../../.."

// pages are the paths of all pages, relative to root.
func pages(t *testing.T) []string {
	t.Helper()
	return files(t, isPage)
}

// isPage reports whether a file is a page: Markdown, or llms.txt, which is written as Markdown.
func isPage(path string) bool { return strings.HasSuffix(path, ".md") || path == "llms.txt" }

// files returns the paths of the files that match, relative to root and with slashes. It skips
// data of tests, hidden directories but .github, installed modules of npm, and built programs.
func files(t *testing.T, match func(path string) bool) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && isSkipped(path, entry.Name()) {
			return fs.SkipDir
		}
		if !entry.IsDir() && match(path) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func isSkipped(path, name string) bool {
	switch {
	case path == ".":
		return false
	case path == "bin", name == "testdata", name == "node_modules":
		return true
	}
	return name[0] == '.' && name != ".github"
}

// isProgram reports whether a file is Go and no test.
func isProgram(path string) bool {
	return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
}

// read returns the file at a path relative to root.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	ruleOrPromise = regexp.MustCompile(`(?m)^(?:### |- \*\*)([RD]\d+)\b`)
	citation      = regexp.MustCompile(`\b[RD][1-9]\d?\b`)
)

// TestCitedRulesExist: semantics.md has the rules and promises that pages and programs cite.
func TestCitedRulesExist(t *testing.T) {
	known := map[string]bool{}
	for _, m := range ruleOrPromise.FindAllStringSubmatch(read(t, "docs/semantics.md"), -1) {
		known[m[1]] = true
	}
	kinds := []string{".md", ".go", ".lua", ".txt", ".yaml"}
	for _, file := range files(t, func(p string) bool { return slices.Contains(kinds, path.Ext(p)) }) {
		for _, cited := range citation.FindAllString(read(t, file), -1) {
			if !known[cited] {
				t.Errorf("%s cites %s, which semantics.md does not have", file, cited)
			}
		}
	}
}

var (
	// nameOnPage matches code that is a name of Go, of a test, of a metric, of the environment, of
	// a route or of a command of RESP. The names of other programs are written otherwise.
	nameOnPage = regexp.MustCompile(`\b(?:weir\w*|engine|enforce|fallback|policy)\.[A-Z]\w*(?:\.[A-Z]\w*)?|` +
		`\b(?:Test|Benchmark|Fuzz|Example)[A-Z_]\w*|\bweir_[a-z_]+|\b(?:WEIR|OTEL)_[A-Z_]+|/v1/[a-z]+|\bWEIR\.[A-Z]+`)
	docLink = regexp.MustCompile(`(?m)^\s*//.*?[\s(]\[\*?((?:[a-z]\w*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?)\]`)
	word    = regexp.MustCompile(`\w+`)
)

// TestNamesExist: each word of a name in code on a page, or of a link in a comment, is a word of a
// file that is no page. A test of the server compares the page of metrics with its metrics.
func TestNamesExist(t *testing.T) {
	words, mentions := map[string]bool{}, map[string][]string{}
	for _, file := range files(t, func(p string) bool { return !isPage(p) || p == "docs/metrics.md" }) {
		text := read(t, file)
		for _, w := range word.FindAllString(docLink.ReplaceAllString(text, ""), -1) {
			words[w] = true
		}
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			mentions[file] = append(mentions[file], m[1])
		}
	}
	for _, page := range pages(t) {
		text := read(t, page)
		code := markdown.Spans(text)
		for _, b := range markdown.Blocks(text) {
			code = append(code, b.Text)
		}
		mentions[page] = nameOnPage.FindAllString(strings.Join(code, "\n"), -1)
	}
	for file, names := range mentions {
		for _, name := range names {
			for _, w := range word.FindAllString(name, -1) {
				if !words[w] {
					t.Errorf("%s names %s, and no file has the word %s", file, name, w)
				}
			}
		}
	}
}
