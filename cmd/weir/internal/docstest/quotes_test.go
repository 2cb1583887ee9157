package docs_test

import (
	"strings"
	"testing"
)

// TestQuotesAreInTheirFiles: a block of a page that names a Go file behind its language has the
// lines of that file, so the page cannot drift from code that is compiled and tested:
//
//	```go examples/frameworks/chi.go
func TestQuotesAreInTheirFiles(t *testing.T) {
	quotes := 0
	for _, page := range pages(t) {
		for _, b := range blocksOfPage(read(t, page)) {
			if b.quoted == "" {
				continue
			}
			quotes++
			if !isPartOf(read(t, b.quoted), b.text) {
				t.Errorf("%s:%d: these lines are not in %s; copy them from there:\n%s", page, b.line, b.quoted, b.text)
			}
		}
	}
	if quotes < 5 {
		t.Errorf("found %d quotes", quotes)
	}
}

// TestEveryFrameworkIsQuoted: each file of examples/frameworks is on the page of middleware.
func TestEveryFrameworkIsQuoted(t *testing.T) {
	page := read(t, "docs/middleware.md")
	for _, path := range glob(t, "examples/frameworks/*.go") {
		if isProgram(path) && !strings.Contains(page, "```go "+path+"\n") {
			t.Errorf("docs/middleware.md quotes nothing of %s", path)
		}
	}
}

// isPartOf reports whether the lines of a quote follow each other in a file. The file may indent
// all of them by the same tabs.
func isPartOf(file, quote string) bool {
	lines := strings.Split(file, "\n")
	want := strings.Split(strings.TrimRight(quote, "\n"), "\n")
	for i := range len(lines) - len(want) + 1 {
		indent, ok := strings.CutSuffix(lines[i], want[0])
		if ok && strings.Trim(indent, "\t") == "" && areIndented(lines[i:i+len(want)], want, indent) {
			return true
		}
	}
	return false
}

// areIndented reports whether lines are those that are wanted behind an indent. Empty lines have
// none.
func areIndented(lines, want []string, indent string) bool {
	for i, line := range lines {
		if line != indent+want[i] && (line != "" || want[i] != "") {
			return false
		}
	}
	return true
}

func TestIsPartOf(t *testing.T) {
	const file = "package p\n\nfunc f() {\n\tg()\n\n\tif a {\n\t\tb()\n\t}\n}\n"
	for quote, want := range map[string]bool{
		"func f() {\n\tg()\n":                   true,
		"g()\n\nif a {\n\tb()\n}\n":             true,
		"b()\n":                                 true,
		"g()\nif a {\n":                         false, // an empty line is missing
		"func f() {\ng()\n":                     false, // the indent differs
		"if a {\n\tb() // not in the file\n}\n": false,
		"if a {\n\tb()\n\t}\n":                  false,
		"f() {\n":                               false, // a part of a line
		"}\n}\n":                                false,
	} {
		if got := isPartOf(file, quote); got != want {
			t.Errorf("%q is part of the file: %t, want %t", quote, got, want)
		}
	}
}
