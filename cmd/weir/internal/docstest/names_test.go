package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// A kind is a kind of names in code on pages. The first group of found is the name there;
// that of given is the name where it is defined, in files that match.
type kind struct {
	what         string
	found, given *regexp.Regexp
	in           func(path string) bool
	least        int // names on pages, so that the test finds some
}

var kinds = []kind{
	{"test", regexp.MustCompile(`\b((?:Test|Benchmark|Fuzz|Example)(?:[A-Z]|_[a-z])\w*)`), regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`), isGoTest, 5},
	{"target of the Makefile", regexp.MustCompile(`(?m)(?:^|[;&] )make ([a-z][a-z-]+)`), regexp.MustCompile(`(?m)^([a-z-]+):`), is("Makefile"), 20},
	{"variable of the environment", regexp.MustCompile(`\b(WEIR_[A-Z_]+|OTEL_[A-Z_]+)\b`), regexp.MustCompile(`\b(WEIR_[A-Z_]+|OTEL_[A-Z_]+)\b`), isNoPage, 10},
	{"metric", regexp.MustCompile(`^(weir_[a-z_]+)`), regexp.MustCompile("(?m)^\\| `(weir_[a-z_]+)`"), is("docs/metrics.md"), 50},
	{"route", regexp.MustCompile(`(/v1/[a-z]+)`), regexp.MustCompile(`(?m)^\t\{"(/v1/[a-z]+)`), is("cmd/weir/internal/server/httpapi/route.go"), 50},
	{"member of JSON", regexp.MustCompile(`"([a-z]+(?:_[a-z]+)*)":`), regexp.MustCompile(`"([a-z]+(?:_[a-z]+)*)[",:]`), isNoPage, 100},
	{"command", regexp.MustCompile(`\b(WEIR\.[A-Z]+)\b`), regexp.MustCompile(`"(WEIR\.[A-Z]+)"`), func(path string) bool {
		return strings.HasPrefix(path, "cmd/weir/internal/front/resp/") && isProgram(path)
	}, 20},
}

// TestNamesExist: names of each kind on pages are defined.
func TestNamesExist(t *testing.T) {
	for _, k := range kinds {
		given := map[string]bool{}
		for _, file := range files(t, k.in) {
			for _, m := range k.given.FindAllStringSubmatch(read(t, file), -1) {
				given[m[1]] = true
			}
		}
		found := 0
		for _, page := range pages(t) {
			for _, code := range codeOfPage(read(t, page)) {
				for _, m := range k.found.FindAllStringSubmatch(code, -1) {
					found++
					if !given[m[1]] {
						t.Errorf("%s: there is no %s %s", page, k.what, m[1])
					}
				}
			}
		}
		if found < k.least {
			t.Errorf("pages have %d names of a %s, want %d or more", found, k.what, k.least)
		}
	}
}

func is(path string) func(string) bool { return func(p string) bool { return p == path } }

func isNoPage(path string) bool { return !strings.HasSuffix(path, ".md") }

func isGoTest(path string) bool { return strings.HasSuffix(path, "_test.go") }
