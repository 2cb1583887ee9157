package docs_test

import (
	"encoding/json"
	"maps"
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
	known := map[string]string{"redis-server": "Redis", "redis-tools": "Redis", "nodejs": "Node", "python3-flask": "Flask", "haproxy": "HAProxy",
		"caddy": "Caddy", "prometheus": "Prometheus", "chromium": "Chromium"}
	names := named(t, "scripts/tools", `\|\| echo (\S+)`)
	for i, name := range names {
		if known[name] != "" {
			names[i] = known[name]
		}
	}
	return names
}
