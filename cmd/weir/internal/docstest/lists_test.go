package docs_test

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestListsAreComplete: a page that lists things of a kind names each of them.
func TestListsAreComplete(t *testing.T) {
	for _, list := range []struct {
		page, form string // form has NAME in place of a name
		names      []string
	}{
		{"docs/architecture.md", "NAME", []string{"weir.Memory", "weirdisk.Engine", "weirredis.Engine", "fallback.Engine", "weir.Limiter"}},
		{"docs/README.md", "](NAME)", baseNames(glob(t, "docs/*.md"), "README.md")},
		{"examples/README.md", "](NAME", directories(t, "examples")},
		{"bench/README.md", "`NAME`", directories(t, "bench", "internal")},
		{"bench/README.md", "\ngo run ./NAME ", directories(t, "bench", "internal")},
		{"bench/README.md", "NAME`", directories(t, "bench/internal")},
		{"cmd/weir/internal/integrations/README.md", "](NAME/", directories(t, "cmd/weir/internal/integrations")},
		{"docs/resp.md", "| `NAME", named(t, "cmd/weir/internal/front/resp/command.go", `"(WEIR\.[A-Z]+)"`)},
		{"docs/resp.md", "`NAME", named(t, "cmd/weir/internal/front/resp/command.go", `\{name: "([A-Z.]+)"`)},
		{"docs/replay.md", "`NAME`", named(t, "cmd/weir/internal/logs/accesslog/format.go", `Format = "([a-z-]+)"`)},
		{"docs/http-api.md", "NAME", named(t, "cmd/weir/internal/server/httpapi/route.go", `(?m)^\t\{"(/[a-z0-9/{}.]+)"`)},
		{"docs/policies.md", "NAME", policyWords(t)},
		{"CONTRIBUTING.md", "NAME", tools(t)},
		{"weirtest/weirtest.go", "//   - NAME: ", named(t, "internal/conformance/config.go", `(?m)^\t(?:t\.Run\(|\{)"([a-z]+)"`)},
		{"docs/service.md", "| NAME |", []string{"nginx", "HAProxy", "Caddy", "Traefik", "Envoy"}},
		{"docs/service.md", "`NAME`", named(t, "cmd/weir/help/settings.txt", `(?m)^([a-z-]+):`)},
		{"docs/service.md", "NAME`", named(t, "cmd/weir/internal/server/httpapi/route.go", `(?m)^\t\{"(/[a-z0-9/{}.]+)"`)},
	} {
		text := read(t, list.page)
		if len(list.names) < 5 {
			t.Errorf("%s: found only %q", list.page, list.names)
		}
		for _, name := range list.names {
			if !strings.Contains(text, strings.ReplaceAll(list.form, "NAME", name)) {
				t.Errorf("%s lists no %q", list.page, strings.ReplaceAll(list.form, "NAME", name))
			}
		}
	}
}

// directories returns the names of the directories in dir that have files, but not those in
// except.
func directories(t *testing.T, dir string, except ...string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, file := range files(t, func(p string) bool { return strings.HasPrefix(p, dir+"/") }) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(file, dir+"/"), "/"); ok && !slices.Contains(except, name) {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func baseNames(paths []string, except string) []string {
	var names []string
	for _, p := range paths {
		if name := path.Base(p); name != except {
			names = append(names, name)
		}
	}
	return names
}

// named returns the first groups of a pattern in a file.
func named(t *testing.T, file, pattern string) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// policyWords returns the words of a policy, a limit, an override and a test, as in a file.
func policyWords(t *testing.T) []string {
	t.Helper()
	var schema struct {
		Defs map[string]struct {
			Properties map[string]any
			AnyOf      []struct{ Properties map[string]any }
		} `json:"$defs"`
	}
	must.Do(t, json.Unmarshal([]byte(read(t, "policy/weir.schema.json")), &schema))
	var words []string
	for _, def := range schema.Defs {
		words = slices.AppendSeq(words, maps.Keys(def.Properties))
		for _, form := range def.AnyOf {
			words = slices.AppendSeq(words, maps.Keys(form.Properties))
		}
	}
	for i, w := range words {
		words[i] = "`" + w
		if page := read(t, "docs/policies.md"); !strings.Contains(page, words[i]) {
			words[i] = w + ":"
		}
	}
	return words
}

// tools returns the programs that scripts/tools installs, by the names that readers know.
func tools(t *testing.T) []string {
	t.Helper()
	known := map[string]string{"redis-server": "Redis", "redis-tools": "Redis", "nodejs": "Node", "haproxy": "HAProxy",
		"caddy": "Caddy", "prometheus": "Prometheus", "chromium": "Chromium", "python3-pip": "pip"}
	names := named(t, "scripts/tools", `\|\| echo (\S+)`)
	for i, name := range names {
		if known[name] != "" {
			names[i] = known[name]
		}
	}
	return names
}

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

// numberOnPage matches two lines of testdata/numbers.txt.
var numberOnPage = regexp.MustCompile(`(?m)^(docs/\S+): (.+)\n    (\S+): (.+)$`)

// TestNumbersOnPages: a bound or a default that a page names is that of the code. Whoever
// changes one of the two texts changes the other.
func TestNumbersOnPages(t *testing.T) {
	list := string(must.Get(os.ReadFile("testdata/numbers.txt"))(t))
	found := numberOnPage.FindAllStringSubmatch(list, -1)
	for _, m := range found {
		page, text, file, code := m[1], m[2], m[3], m[4]
		if !strings.Contains(words(read(t, page)), text) {
			t.Errorf("%s does not have %q, as %s has %q", page, text, file, code)
		}
		if !strings.Contains(words(read(t, file)), code) {
			t.Errorf("%s does not have %q; is %q of %s still true?", file, code, text, page)
		}
	}
	if n := strings.Count(list, "\ndocs/"); len(found) != n || n < 30 {
		t.Errorf("%d of %d numbers of testdata/numbers.txt were read", len(found), n)
	}
}

// words returns a text with one space between its words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }
